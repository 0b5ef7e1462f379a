"""Softmax down the events of each user, column by column, on a jagged tensor without padding.

``out[t, c]`` is ``exp(x[t, c])`` over its sum over the events t of the same segment, offsets[s] to offsets[s + 1]. It
is FBGEMM's ``jagged_softmax`` (https://github.com/pytorch/FBGEMM), with which pooling by attention weighs a history in
each channel apart. On a GPU a mean segment of 512 events at a width of 128 in bf16 follows the jagged operators of
tritonbench (https://github.com/meta-pytorch/tritonbench: 1024 segments of up to 1000), and 8 columns stand for one per
head. Lengths are log-normal and about one segment in ten is empty, which is ours, and so are the sizes on a CPU; no
figures are published for it. Compiled PyTorch does not fuse it: a library's kernel is the stronger baseline.
"""

import torch
from torch import Tensor, nn

from kernelevolve.problems import Role, Workload
from kernelevolve.problems.suites.generators import ragged_lengths


class Model(nn.Module):
    """Values (total, width) and offsets (segments + 1,), int64, from 0 to total -> like the values."""

    def forward(self, values: Tensor, offsets: Tensor) -> Tensor:
        wide = values.float()
        # A sum by segments and not by scattered additions, whose order on a GPU is another one in every call.
        largest = torch.segment_reduce(wide, "max", offsets=offsets, axis=0)
        segment = torch.bucketize(torch.arange(values.shape[0], device=values.device), offsets[1:], right=True)
        raised = torch.exp(wide - largest[segment])
        total = torch.segment_reduce(raised, "sum", offsets=offsets, axis=0)
        return (raised / total[segment]).to(values.dtype)


def get_inputs(segments: int = 128, total: int = 8192, width: int = 64) -> list[Tensor]:
    lengths = ragged_lengths(segments, total)
    return [2.0 * torch.randn(total, width), torch.cat([lengths.new_zeros(1), lengths.cumsum(0)])]


def get_init_inputs() -> list[int]:
    return []


def get_workloads(device_type: str = "cpu") -> list[Workload]:
    if device_type == "cuda":
        dtype, search, held_out = "bfloat16", [(1024, 524_288, 128), (1024, 524_288, 8)], (777, 300_007, 96)
    else:
        dtype, search, held_out = None, [(128, 8192, 64)], (77, 5003, 48)
    cases = [(Role.SEARCH, sizes) for sizes in search]
    cases += [(Role.HELD_OUT, held_out), (Role.STRESS, (1, 2311, 5)), (Role.STRESS, (2000, 613, 33))]
    cases += [(Role.STRESS, (3, 997, 1))]
    made = [
        Workload(
            name=f"{segments}x{total}x{width}",
            role=role,
            axes={"segments": segments, "total": total, "width": width},
            dtype=dtype,
        )
        for role, (segments, total, width) in cases
    ]
    axes: dict[str, int | float | str | bool] = {"segments": 11, "total": 499, "width": 24}
    return [*made, Workload(name="strided", role=Role.STRESS, axes=axes, dtype=dtype, contiguous=False)]
