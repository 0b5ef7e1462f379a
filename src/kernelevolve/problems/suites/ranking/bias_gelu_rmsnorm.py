"""The tail of a feed-forward layer: ``y = rmsnorm(gelu(x + bias)) * gain``, GELU exact (by erf).

GELU is that of Hendrycks and Gimpel (2016), RMSNorm that of Zhang and Sennrich (2019). Bound by memory once it is
fused. Sizes are ours; no figures are published for it.
"""

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from kernelevolve.problems import Role, Workload

FEATURES = 1024


class Model(nn.Module):
    """(rows, features) -> (rows, features)."""

    def __init__(self, features: int, eps: float = 1e-6) -> None:
        super().__init__()
        self.bias = nn.Parameter(0.5 * torch.randn(features))
        self.gain = nn.Parameter(torch.rand(features) + 0.5)
        self.eps = eps

    def forward(self, x: Tensor) -> Tensor:
        h = F.gelu(x + self.bias).float()
        normed = h * torch.rsqrt(h.pow(2).mean(-1, keepdim=True) + self.eps)
        return (normed * self.gain.float()).to(x.dtype)


def get_inputs(rows: int = 2048) -> list[Tensor]:
    return [torch.randn(rows, FEATURES)]


def get_init_inputs() -> list[int]:
    return [FEATURES]


def get_workloads(device_type: str = "cpu") -> list[Workload]:
    rows, dtype = (65536, "bfloat16") if device_type == "cuda" else (2048, None)
    return [
        Workload(name=f"rows-{rows}", axes={"rows": rows}, dtype=dtype),
        Workload(name="rows-771", role=Role.HELD_OUT, axes={"rows": 771}, dtype=dtype),
        Workload(name="one-row", role=Role.STRESS, axes={"rows": 1}, dtype=dtype),
        Workload(name="strided", role=Role.STRESS, axes={"rows": 257}, dtype=dtype, contiguous=False),
    ]
