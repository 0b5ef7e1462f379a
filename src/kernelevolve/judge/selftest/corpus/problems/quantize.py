"""Rows quantised to eight bits with a scale each."""

import torch

from kernelevolve.problems import Role, Workload


class Model(torch.nn.Module):
    def forward(self, x):
        scale = x.abs().amax(-1, keepdim=True) / 127.0
        return torch.round(x / scale).to(torch.int8), scale


def get_inputs(rows=512):
    return [torch.randn(rows, 512)]


def get_workloads(device_type="cpu"):
    rows = 16384 if device_type == "cuda" else 512
    return [
        Workload(name=f"rows-{rows}", axes={"rows": rows}),
        Workload(name="rows-7", role=Role.HELD_OUT, axes={"rows": 7}),
    ]
