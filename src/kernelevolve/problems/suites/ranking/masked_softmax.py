"""Scaled softmax over candidates of which some are masked out: ``softmax(where(mask, scale * x, -inf), -1)``.

Sequence lengths of users are log-normal, so the mask keeps a prefix of each row; every row keeps at least one.
"""

import torch
from torch import nn

from kernelevolve.problems import Role, Workload


class Model(nn.Module):
    def __init__(self, scale=0.125):
        super().__init__()
        self.scale = scale

    def forward(self, scores, mask):
        return torch.softmax((scores * self.scale).masked_fill(~mask, float("-inf")), dim=-1)


def get_inputs(rows=1024, width=1024):
    lengths = (torch.randn(rows).mul(0.8).exp() * width * 0.4).clamp(1, width).long()
    mask = torch.arange(width)[None, :] < lengths[:, None]
    return [4.0 * torch.randn(rows, width), mask]


def get_init_inputs():
    return []


def get_workloads(device_type="cpu"):
    dtype = "float16" if device_type == "cuda" else None
    rows = 65536 if device_type == "cuda" else 1024
    return [
        Workload(name=f"{rows}x1024", axes={"rows": rows, "width": 1024}, dtype=dtype),
        Workload(name="771x1024", role=Role.HELD_OUT, axes={"rows": 771, "width": 1024}, dtype=dtype),
        Workload(name="33x517", role=Role.STRESS, axes={"rows": 33, "width": 517}, dtype=dtype),
        Workload(name="one-column", role=Role.STRESS, axes={"rows": 65, "width": 1}, dtype=dtype),
    ]
