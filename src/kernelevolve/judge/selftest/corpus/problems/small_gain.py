"""The scaled rectifier with few rows: a call takes microseconds."""

import torch

from kernelevolve.problems import Role, Workload


class Model(torch.nn.Module):
    def __init__(self, features):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.randn(features))

    def forward(self, x):
        return torch.relu(x * self.weight) + x


def get_inputs(rows=16):
    return [torch.randn(rows, 512)]


def get_init_inputs():
    return [512]


def get_workloads(device_type="cpu"):
    rows = 16
    return [
        Workload(name=f"rows-{rows}", axes={"rows": rows}),
        Workload(name="rows-333", role=Role.HELD_OUT, axes={"rows": 333}),
        Workload(name="one-row", role=Role.STRESS, axes={"rows": 1}),
        Workload(name="strided", role=Role.STRESS, axes={"rows": 65}, contiguous=False),
    ]
