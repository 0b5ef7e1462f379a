"""Factorisation machine of a Wukong layer, in the association it is published in: ``X (Xᵀ Y)``.

X is (batch, N, D), Y is (batch, N, K). Shapes on a GPU are KernelEvolve's (section 5.3.1); with N far below D and K the
association ``(X Xᵀ) Y`` does the same with a fraction of the work.
"""

import torch
from torch import nn

from kernelevolve.problems import Role, Workload


class Model(nn.Module):
    def forward(self, x, y):
        return torch.bmm(x, torch.bmm(x.permute(0, 2, 1), y))


def get_inputs(batch=64, n=24, d=224, k=448):
    return [torch.randn(batch, n, d), torch.randn(batch, n, k)]


def get_init_inputs():
    return []


def get_workloads(device_type="cpu"):
    dtype = "float16" if device_type == "cuda" else None
    if device_type == "cuda":
        search = [(1024, 24, 224, 2198), (1024, 40, 224, 448)]
    else:
        search = [(64, 24, 224, 448)]
    return [
        *(
            Workload(name=f"{b}x{n}x{d}x{k}", axes={"batch": b, "n": n, "d": d, "k": k}, dtype=dtype)
            for b, n, d, k in search
        ),
        Workload(name="37-batches", role=Role.HELD_OUT, axes={"batch": 37, "n": 24, "d": 224, "k": 448}, dtype=dtype),
        Workload(name="odd", role=Role.STRESS, axes={"batch": 3, "n": 5, "d": 17, "k": 33}, dtype=dtype),
    ]
