"""Personalised feed-forward network of InterFormer: both matrices differ from sample to sample.

``h = rmsnorm(gelu(x W1 + b1)) * g1``, then ``y = rmsnorm(h W2 + b2) * g2``. The chain and the sizes (batch, tokens,
d, k) on a GPU are those of KernelEvolve (arXiv 2512.23236, section 5.3.2: fp16; 2.0 to 2.6 times the speed of compiled
PyTorch up to batch 256, 1.2 to 1.4 above 512). The gains of the norms and the sizes on a CPU are ours.
"""

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from kernelevolve.problems import Role, Workload

D, K = 256, 160


class Model(nn.Module):
    """x (batch, tokens, d), W1 (batch, d, k), b1 (batch, 1, k), W2 (batch, k, d), b2 (batch, 1, d) -> like x."""

    def __init__(self, d: int, k: int, eps: float = 1e-6) -> None:
        super().__init__()
        self.inner_gain = nn.Parameter(torch.rand(k) + 0.5)
        self.outer_gain = nn.Parameter(torch.rand(d) + 0.5)
        self.eps = eps

    def forward(self, x: Tensor, w1: Tensor, b1: Tensor, w2: Tensor, b2: Tensor) -> Tensor:
        h = F.gelu(torch.bmm(x, w1) + b1)
        h = F.rms_norm(h, h.shape[-1:], self.inner_gain, self.eps)
        y = torch.bmm(h, w2) + b2
        return F.rms_norm(y, y.shape[-1:], self.outer_gain, self.eps)


def get_inputs(batch: int = 8, tokens: int = 200) -> list[Tensor]:
    return [
        torch.randn(batch, tokens, D),
        torch.randn(batch, D, K) / D**0.5,
        0.3 * torch.randn(batch, 1, K),
        torch.randn(batch, K, D) / K**0.5,
        0.3 * torch.randn(batch, 1, D),
    ]


def get_init_inputs() -> list[int]:
    return [D, K]


def get_workloads(device_type: str = "cpu") -> list[Workload]:
    if device_type == "cuda":
        dtype, search, held_out = "float16", (1024, 200), (1024, 400)
    else:
        dtype, search, held_out = None, (8, 200), (5, 150)
    cases = [(Role.SEARCH, search), (Role.HELD_OUT, held_out), (Role.STRESS, (1, 1)), (Role.STRESS, (3, 77))]
    return [
        Workload(name=f"{batch}x{tokens}", role=role, axes={"batch": batch, "tokens": tokens}, dtype=dtype)
        for role, (batch, tokens) in cases
    ]
