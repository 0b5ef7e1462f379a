"""Softmax over very long rows: every value is tiny."""

import torch

from kernelevolve.problems import Role, Workload


class Model(torch.nn.Module):
    def forward(self, x):
        return torch.softmax(x, dim=-1)


def get_inputs(rows=8, columns=32768):
    return [torch.randn(rows, columns)]


def get_workloads(device_type="cpu"):
    rows = 1024 if device_type == "cuda" else 8
    return [
        Workload(name=f"rows-{rows}", axes={"rows": rows}),
        Workload(name="odd", role=Role.HELD_OUT, axes={"rows": 3, "columns": 30001}),
        Workload(name="large-values", role=Role.STRESS, axes={"rows": 2, "columns": 4097}, distribution={"scale": 200.0}),
    ]
