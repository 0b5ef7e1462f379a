"""Residual add and RMSNorm: ``h = x + residual; y = h * rsqrt(mean(h²) + eps) * gain``. Returns both y and h.

The block that opens every layer of a transformer-style ranking model. Memory-bound: four passes over rows at least.
"""

import torch
from torch import nn

from kernelevolve.problems import Role, Workload

features = 1024


class Model(nn.Module):
    def __init__(self, features, eps=1e-6):
        super().__init__()
        self.gain = nn.Parameter(1.0 + 0.1 * torch.randn(features))
        self.eps = eps

    def forward(self, x, residual):
        h = x + residual
        wide = h.float()
        scale = torch.rsqrt(wide.pow(2).mean(-1, keepdim=True) + self.eps)
        return (wide * scale * self.gain.float()).to(h.dtype), h


def get_inputs(rows=2048):
    return [torch.randn(rows, features), torch.randn(rows, features)]


def get_init_inputs():
    return [features]


def get_workloads(device_type="cpu"):
    dtype = "bfloat16" if device_type == "cuda" else None
    rows = 65536 if device_type == "cuda" else 2048
    return [
        Workload(name=f"rows-{rows}", axes={"rows": rows}, dtype=dtype),
        Workload(name="rows-1537", role=Role.HELD_OUT, axes={"rows": 1537}, dtype=dtype),
        Workload(name="one-row", role=Role.STRESS, axes={"rows": 1}, dtype=dtype),
        Workload(name="strided", role=Role.STRESS, axes={"rows": 257}, dtype=dtype, contiguous=False),
    ]
