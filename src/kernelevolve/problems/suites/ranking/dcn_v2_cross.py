"""Cross layer of DCN-V2 with a full-rank matrix: ``x0 * (W x + b) + x`` (Wang et al., 2021, equation 1).

Bound by the matrix product. On a GPU the width is 3456, that of the interaction layer in MLPerf's DLRM-DCNv2, and the
batch 8192; the sizes on a CPU are ours. No times are published for this layer alone.
"""

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from kernelevolve.problems import Role, Workload

WIDTH = {"cpu": 512, "cuda": 3456}


class Model(nn.Module):
    """(batch, width), (batch, width) -> (batch, width)."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.randn(width, width) / width**0.5)
        self.bias = nn.Parameter(0.1 * torch.randn(width))

    def forward(self, x0: Tensor, x: Tensor) -> Tensor:
        return x0 * F.linear(x, self.weight, self.bias) + x


def get_inputs(batch: int = 1024, device_type: str = "cpu") -> list[Tensor]:
    return [torch.randn(batch, WIDTH[device_type]), torch.randn(batch, WIDTH[device_type])]


def get_init_inputs(device_type: str = "cpu") -> list[int]:
    return [WIDTH[device_type]]


def get_workloads(device_type: str = "cpu") -> list[Workload]:
    batch, dtype = (8192, "bfloat16") if device_type == "cuda" else (1024, None)
    return [
        Workload(name=f"batch-{batch}", axes={"batch": batch}, dtype=dtype),
        Workload(name="batch-777", role=Role.HELD_OUT, axes={"batch": 777}, dtype=dtype),
        Workload(name="one-row", role=Role.STRESS, axes={"batch": 1}, dtype=dtype),
        Workload(name="strided", role=Role.STRESS, axes={"batch": 65}, dtype=dtype, contiguous=False),
    ]
