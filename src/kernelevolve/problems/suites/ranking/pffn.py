"""Personalised feed-forward network of InterFormer: weights per sample, GELU and RMSNorm between two products.

``h = rmsnorm(gelu(x W1 + b1)) * g1; y = rmsnorm(h W2 + b2) * g2`` with W1, W2 of every sample its own. Shapes on a GPU
are KernelEvolve's (1024, 200, 256, 160).
"""

import torch
import torch.nn.functional as F
from torch import nn

from kernelevolve.problems import Role, Workload

outer, inner = 256, 160


class Model(nn.Module):
    def __init__(self, outer, inner, eps=1e-6):
        super().__init__()
        self.gain_inner = nn.Parameter(1.0 + 0.1 * torch.randn(inner))
        self.gain_outer = nn.Parameter(1.0 + 0.1 * torch.randn(outer))
        self.eps = eps

    def normalise(self, h, gain):
        wide = h.float()
        scale = torch.rsqrt(wide.pow(2).mean(-1, keepdim=True) + self.eps)
        return (wide * scale * gain.float()).to(h.dtype)

    def forward(self, x, w1, b1, w2, b2):
        h = self.normalise(F.gelu(torch.baddbmm(b1, x, w1)), self.gain_inner)
        return self.normalise(torch.baddbmm(b2, h, w2), self.gain_outer)


def get_inputs(batch=8, tokens=200):
    return [
        torch.randn(batch, tokens, outer),
        torch.randn(batch, outer, inner) / outer**0.5,
        0.1 * torch.randn(batch, 1, inner),
        torch.randn(batch, inner, outer) / inner**0.5,
        0.1 * torch.randn(batch, 1, outer),
    ]


def get_init_inputs():
    return [outer, inner]


def get_workloads(device_type="cpu"):
    dtype = "float16" if device_type == "cuda" else None
    batch = 1024 if device_type == "cuda" else 8
    return [
        Workload(name=f"batch-{batch}", axes={"batch": batch}, dtype=dtype),
        Workload(name="5x77", role=Role.HELD_OUT, axes={"batch": 5, "tokens": 77}, dtype=dtype),
        Workload(name="1x1", role=Role.STRESS, axes={"batch": 1, "tokens": 1}, dtype=dtype),
    ]
