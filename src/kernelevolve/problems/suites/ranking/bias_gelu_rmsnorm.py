"""Bias, GELU (exact, by erf), RMSNorm: the tail of a feed-forward layer, ``rmsnorm(gelu(x + bias)) * gain``."""

import torch
import torch.nn.functional as F
from torch import nn

from kernelevolve.problems import Role, Workload

features = 1024


class Model(nn.Module):
    def __init__(self, features, eps=1e-6):
        super().__init__()
        self.bias = nn.Parameter(0.5 * torch.randn(features))
        self.gain = nn.Parameter(1.0 + 0.1 * torch.randn(features))
        self.eps = eps

    def forward(self, x):
        h = F.gelu(x + self.bias)
        wide = h.float()
        scale = torch.rsqrt(wide.pow(2).mean(-1, keepdim=True) + self.eps)
        return (wide * scale * self.gain.float()).to(x.dtype)


def get_inputs(rows=1024):
    return [torch.randn(rows, features)]


def get_init_inputs():
    return [features]


def get_workloads(device_type="cpu"):
    dtype = "bfloat16" if device_type == "cuda" else None
    rows = 65536 if device_type == "cuda" else 1024
    return [
        Workload(name=f"rows-{rows}", axes={"rows": rows}, dtype=dtype),
        Workload(name="rows-1537", role=Role.HELD_OUT, axes={"rows": 1537}, dtype=dtype),
        Workload(name="one-row", role=Role.STRESS, axes={"rows": 1}, dtype=dtype),
        Workload(name="strided", role=Role.STRESS, axes={"rows": 257}, dtype=dtype, contiguous=False),
    ]
