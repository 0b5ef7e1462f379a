"""Residual add and RMSNorm: ``h = x + residual``, ``y = h / sqrt(mean(h²) + eps) * gain``; returns y and h.

RMSNorm is that of Zhang and Sennrich (2019). It opens every block of a transformer-like ranking model and is bound by
memory: two tensors read, two written. Sizes are ours; no figures are published for it.
"""

import torch
from torch import Tensor, nn

from kernelevolve.problems import Role, Workload

FEATURES = 1024


class Model(nn.Module):
    """(rows, features), (rows, features) -> normed and sum, each (rows, features)."""

    def __init__(self, features: int, eps: float = 1e-6) -> None:
        super().__init__()
        self.gain = nn.Parameter(torch.rand(features) + 0.5)
        self.eps = eps

    def forward(self, x: Tensor, residual: Tensor) -> tuple[Tensor, Tensor]:
        h = x + residual
        wide = h.float()
        normed = wide * torch.rsqrt(wide.pow(2).mean(-1, keepdim=True) + self.eps)
        return (normed * self.gain.float()).to(x.dtype), h


def get_inputs(rows: int = 4096) -> list[Tensor]:
    return [torch.randn(rows, FEATURES), torch.randn(rows, FEATURES)]


def get_init_inputs() -> list[int]:
    return [FEATURES]


def get_workloads(device_type: str = "cpu") -> list[Workload]:
    rows, dtype = (65536, "bfloat16") if device_type == "cuda" else (4096, None)
    return [
        Workload(name=f"rows-{rows}", axes={"rows": rows}, dtype=dtype),
        Workload(name="rows-1537", role=Role.HELD_OUT, axes={"rows": 1537}, dtype=dtype),
        Workload(name="one-row", role=Role.STRESS, axes={"rows": 1}, dtype=dtype),
        Workload(name="strided", role=Role.STRESS, axes={"rows": 257}, dtype=dtype, contiguous=False),
    ]
