"""Convolution over a sequence of events, kernel 3, padding 1: the convolution of KernelEvolve's Table 3.

The published GPU shape is (2048, 96, 96, 200) in fp16 (batch, channels in, channels out, length).
"""

import torch
from torch import nn

from kernelevolve.problems import Role, Workload

channels_in, channels_out = 96, 96


class Model(nn.Module):
    def __init__(self, channels_in, channels_out):
        super().__init__()
        self.conv = nn.Conv1d(channels_in, channels_out, kernel_size=3, padding=1)

    def forward(self, x):
        return self.conv(x)


def get_inputs(batch=32, length=200):
    return [torch.randn(batch, channels_in, length)]


def get_init_inputs():
    return [channels_in, channels_out]


def get_workloads(device_type="cpu"):
    dtype = "float16" if device_type == "cuda" else None
    batch = 2048 if device_type == "cuda" else 32
    return [
        Workload(name=f"batch-{batch}", axes={"batch": batch}, dtype=dtype),
        Workload(name="5x123", role=Role.HELD_OUT, axes={"batch": 5, "length": 123}, dtype=dtype),
        Workload(name="1x1", role=Role.STRESS, axes={"batch": 1, "length": 1}, dtype=dtype),
    ]
