"""Cross layer of DCN-V2: ``x0 * (W x + b) + x`` (Wang et al., 2021, equation 1). Bound by the matrix product.

The width 3456 is that of the MLPerf DLRM-DCNv2 model."""

import torch
import torch.nn.functional as F
from torch import nn

from kernelevolve.problems import Role, Workload

features = 3456


class Model(nn.Module):
    def __init__(self, features):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(features, features) / features**0.5)
        self.bias = nn.Parameter(0.1 * torch.randn(features))

    def forward(self, x0, x):
        return x0 * F.linear(x, self.weight, self.bias) + x


def get_inputs(batch=128):
    return [torch.randn(batch, features), torch.randn(batch, features)]


def get_init_inputs():
    return [features]


def get_workloads(device_type="cpu"):
    dtype = "bfloat16" if device_type == "cuda" else None
    batch = 8192 if device_type == "cuda" else 128
    return [
        Workload(name=f"batch-{batch}", axes={"batch": batch}, dtype=dtype),
        Workload(name="batch-77", role=Role.HELD_OUT, axes={"batch": 77}, dtype=dtype),
        Workload(name="one-row", role=Role.STRESS, axes={"batch": 1}, dtype=dtype),
    ]
