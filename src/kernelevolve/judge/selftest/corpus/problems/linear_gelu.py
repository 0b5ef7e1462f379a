"""A linear layer with GELU: enough arithmetic that a call takes milliseconds."""

import torch

from kernelevolve.problems import Role, Workload


class Model(torch.nn.Module):
    def __init__(self, features):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.randn(features, features) / features**0.5)
        self.bias = torch.nn.Parameter(torch.randn(features))

    def forward(self, x):
        return torch.nn.functional.gelu(torch.nn.functional.linear(x, self.weight, self.bias))


FEATURES = 1024


def get_inputs(rows=384):
    return [torch.randn(rows, FEATURES)]


def get_init_inputs():
    return [FEATURES]


def get_workloads(device_type="cpu"):
    rows = 16384 if device_type == "cuda" else 384
    return [
        Workload(name=f"rows-{rows}", axes={"rows": rows}),
        Workload(name="rows-77", role=Role.HELD_OUT, axes={"rows": 77}),
        Workload(name="one-row", role=Role.STRESS, axes={"rows": 1}),
    ]
