"""Moments of rows as a nested result with a tensor of integers, None and a number in it."""

import torch

from kernelevolve.problems import Role, Workload


class Model(torch.nn.Module):
    def forward(self, x):
        mean = x.mean(-1)
        return {"mean": mean, "rest": [((x - mean[:, None]) ** 2).mean(-1), None, x.shape[-1]], "where": x.argmax(-1)}


def get_inputs(rows=512):
    return [torch.randn(rows, 700) + 1.0]


def get_workloads(device_type="cpu"):
    rows = 16384 if device_type == "cuda" else 512
    return [
        Workload(name=f"rows-{rows}", axes={"rows": rows}),
        Workload(name="rows-1", role=Role.HELD_OUT, axes={"rows": 1}),
    ]
