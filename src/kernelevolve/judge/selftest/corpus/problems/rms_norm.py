"""RMS normalisation after a residual sum: two outputs, a reduction over rows."""

import torch

from kernelevolve.problems import Role, Workload


class Model(torch.nn.Module):
    def __init__(self, features):
        super().__init__()
        self.gain = torch.nn.Parameter(torch.rand(features) + 0.5)

    def forward(self, x, residual):
        h = x + residual
        return h * torch.rsqrt(h.pow(2).mean(-1, keepdim=True) + 1e-6) * self.gain, h


def get_inputs(rows=512):
    return [torch.randn(rows, 500), torch.randn(rows, 500)]


def get_init_inputs():
    return [500]


def get_workloads(device_type="cpu"):
    rows = 32768 if device_type == "cuda" else 512
    return [
        Workload(name=f"rows-{rows}", axes={"rows": rows}),
        Workload(name="rows-101", role=Role.HELD_OUT, axes={"rows": 101}),
        Workload(name="one-row", role=Role.STRESS, axes={"rows": 1}),
        Workload(name="strided", role=Role.STRESS, axes={"rows": 33}, contiguous=False),
        Workload(name="tiny-values", role=Role.STRESS, axes={"rows": 16}, distribution={"scale": 1e-4}),
        Workload(name="large-values", role=Role.STRESS, axes={"rows": 16}, distribution={"scale": 100.0, "shift": 5.0}),
    ]
