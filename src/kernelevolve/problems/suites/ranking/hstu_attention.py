"""Attention of an HSTU layer: a pointwise SiLU in place of a softmax, causal, on users' histories without padding.

``out[i] = sum over j of silu(alpha * q[i]·k[j] + bias[i - j]) / n * v[j]`` over the events j of i's user that i may
see: those up to i, but of the user's last ``targets`` events, which are candidates to be ranked, only itself. Equation
2 of Zhai et al. (2024, https://arxiv.org/abs/2402.17152), with the part of its relative bias that hangs on positions
and one table for all heads; n is the largest length. Mask, alpha = 1 / sqrt(d) and, on a GPU, the sizes (4 heads of
128, up to 2048 events, of which 95 % are there, up to 20 targets, bf16) are those of the kernels and the benchmark in
https://github.com/meta-recsys/generative-recommenders, but for its batch of 512, which is 32 here, because the
reference pads and holds all scores. Its Triton and CUDA kernels are the baseline to beat; a padded product is not a
fair one. Sizes on a CPU are ours.
"""

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from kernelevolve.problems import Role, Workload

SIZES = {"cpu": (256, 2, 32), "cuda": (2048, 4, 128)}
"""Device type -> events of a user at most, heads, width of a head."""
TARGETS = 20


class Model(nn.Module):
    """q, k, v (total, heads, width), offsets (users + 1,) and targets (users,), int64 -> (total, heads, width).

    User u has the rows offsets[u] to offsets[u + 1], at most max_length; targets[u] is at most their number.
    """

    def __init__(self, max_length: int) -> None:
        super().__init__()
        self.max_length = max_length
        self.bias = nn.Parameter(torch.randn(max_length))

    def forward(self, q: Tensor, k: Tensor, v: Tensor, offsets: Tensor, targets: Tensor) -> Tensor:
        place = torch.arange(self.max_length, device=q.device)
        at = (offsets[:-1, None] + place).clamp(max=q.shape[0] - 1)
        queries, keys, values = (t[at].transpose(1, 2) for t in (q, k, v))  # (users, heads, max_length, width)
        distance = place[:, None] - place
        scores = q.shape[-1] ** -0.5 * torch.matmul(queries, keys.transpose(2, 3)) + self.bias[distance.clamp(min=0)]
        history = (offsets.diff() - targets)[:, None, None]
        seen = (distance == 0) | ((distance > 0) & (place < history))
        weights = (F.silu(scores) / self.max_length).masked_fill(~seen[:, None], 0.0)
        out = torch.matmul(weights, values).transpose(1, 2)
        row = torch.arange(q.shape[0], device=q.device)
        user = torch.bucketize(row, offsets[1:], right=True)
        return out[user, row - offsets[user]]


def get_inputs(users: int = 8, fill: float = 0.95, device_type: str = "cpu") -> list[Tensor]:
    """Lengths are uniform with mean ``fill`` * max_length; half of them mirror the others, so that the sum is fixed."""
    longest, heads, width = SIZES[device_type]
    least, most = int(max(2 * fill - 1, 0) * longest), int(min(2 * fill, 1) * longest)
    drawn = torch.randint(least, most + 1, (users // 2,))
    middle = torch.full((users % 2,), (least + most) // 2)
    lengths = torch.cat([drawn, least + most - drawn, middle])[torch.randperm(users)]
    offsets = torch.cat([lengths.new_zeros(1), lengths.cumsum(0)])
    targets = torch.minimum(torch.randint(1, TARGETS + 1, (users,)), lengths)
    q, k, v = (torch.randn(int(offsets[-1]), heads, width) for _ in range(3))
    return [q, k, v, offsets, targets]


def get_init_inputs(device_type: str = "cpu") -> list[int]:
    return [SIZES[device_type][0]]


def get_workloads(device_type: str = "cpu") -> list[Workload]:
    users, dtype = (32, "bfloat16") if device_type == "cuda" else (8, None)
    single = 1 / SIZES[device_type][0]
    cases: list[tuple[str, Role, dict[str, int | float | str | bool]]] = [
        ("full", Role.SEARCH, {"users": users, "fill": 0.95}),
        ("half", Role.HELD_OUT, {"users": users + 5, "fill": 0.5}),
        ("one-event", Role.STRESS, {"users": 1, "fill": single}),
        ("few-events", Role.STRESS, {"users": 23, "fill": 4 * single}),
        ("longest", Role.STRESS, {"users": 1, "fill": 1.0}),
    ]
    made = [Workload(name=name, role=role, axes=axes, dtype=dtype) for name, role, axes in cases]
    strided = made[-1].model_copy(update={"name": "strided", "axes": {"users": 3, "fill": 0.371}, "contiguous": False})
    return [*made, strided]
