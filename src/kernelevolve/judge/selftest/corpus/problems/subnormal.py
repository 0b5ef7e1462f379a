"""A scaling of numbers that are or become subnormal."""

import torch

from kernelevolve.problems import Role, Workload


class Model(torch.nn.Module):
    def forward(self, x):
        return x * 0.25


def get_inputs(rows=512):
    return [torch.randn(rows, 512)]


def get_workloads(device_type="cpu"):
    rows = 65536 if device_type == "cuda" else 512
    return [
        Workload(name=f"rows-{rows}", axes={"rows": rows}),
        Workload(name="small", role=Role.HELD_OUT, axes={"rows": 64}, distribution={"scale": 1e-30}),
        Workload(name="subnormal", role=Role.STRESS, axes={"rows": 64}, distribution={"scale": 1e-38}),
    ]
