"""A layer in training mode: its result is asked for its gradients."""

import torch

from kernelevolve.problems import Role, Workload

TRAINING = True


class Model(torch.nn.Module):
    def __init__(self, features):
        super().__init__()
        self.norm = torch.nn.BatchNorm1d(features)
        self.weight = torch.nn.Parameter(torch.randn(features))

    def forward(self, x):
        return torch.tanh(self.norm(x) * self.weight)


def get_inputs(rows=256):
    return [torch.randn(rows, 128)]


def get_init_inputs():
    return [128]


def get_workloads(device_type="cpu"):
    return [Workload(name="rows-256"), Workload(name="rows-48", role=Role.HELD_OUT, axes={"rows": 48})]
