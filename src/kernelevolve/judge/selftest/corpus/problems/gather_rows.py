"""Rows of a table by index. The search sees sorted indices, a promotion others as well."""

import torch

from kernelevolve.problems import Role, Workload

ROWS, FEATURES = 20000, 64


class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.table = torch.nn.Parameter(torch.randn(ROWS, FEATURES))

    def forward(self, index, scale):
        return self.table[index] * scale[:, None]


def get_inputs(count=4096, consecutive=True):
    start = int(torch.randint(0, ROWS - count, ()))
    index = torch.arange(start, start + count) if consecutive else torch.randint(0, ROWS, (count,))
    return [index, torch.rand(count) + 0.5]


def get_workloads(device_type="cpu"):
    return [
        Workload(name="consecutive"),
        Workload(name="random", role=Role.HELD_OUT, axes={"count": 1000, "consecutive": False}),
    ]
