"""Sums over rows and over columns."""

import torch

from kernelevolve.problems import Role, Workload


class Model(torch.nn.Module):
    def forward(self, x):
        return x.sum(-1), x.sum(0)


def get_inputs(rows=700, columns=1000):
    return [torch.randn(rows, columns)]


def get_workloads(device_type="cpu"):
    rows, columns = (8192, 4096) if device_type == "cuda" else (700, 1000)
    return [
        Workload(name=f"rows-{rows}", axes={"rows": rows, "columns": columns}),
        Workload(name="odd", role=Role.HELD_OUT, axes={"rows": 31, "columns": 77}),
        Workload(name="strided", role=Role.STRESS, axes={"rows": 13, "columns": 29}, contiguous=False),
    ]
