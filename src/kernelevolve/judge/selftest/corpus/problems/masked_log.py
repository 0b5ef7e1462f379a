"""Logarithms with a mask: infinities and not-a-numbers belong to the result."""

import torch

from kernelevolve.problems import Role, Workload


class Model(torch.nn.Module):
    def forward(self, x, keep):
        return torch.where(keep, torch.log(x), float("-inf"))


def get_inputs(rows=512):
    return [torch.randn(rows, 512), torch.rand(rows, 512) > 0.25]


def get_workloads(device_type="cpu"):
    rows = 16384 if device_type == "cuda" else 512
    return [
        Workload(name=f"rows-{rows}", axes={"rows": rows}),
        Workload(name="rows-99", role=Role.HELD_OUT, axes={"rows": 99}),
    ]
