"""Convolution over a sequence of events: kernel 3, stride 1, padding 1, with bias.

The convolution of KernelEvolve's table 3 (arXiv 2512.23236): on a GPU (batch, channels in, channels out, length) is
(2048, 96, 96, 200) in fp16, for which it gives 0.342 ms of compiled PyTorch and 0.149 ms of its own kernel on an H100.
Inputs have the published deviation of 0.041. Sizes on a CPU are ours. ``CHANNELS`` can be set to 768, its losing case.
"""

import torch
from torch import Tensor, nn

from kernelevolve.problems import Role, Workload

CHANNELS = 96


class Model(nn.Module):
    """(batch, channels, length) -> (batch, channels, length)."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.conv = nn.Conv1d(channels, channels, kernel_size=3, padding=1)

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = self.conv(x)
        return out


def get_inputs(batch: int = 64, length: int = 200) -> list[Tensor]:
    return [0.041 * torch.randn(batch, CHANNELS, length)]


def get_init_inputs() -> list[int]:
    return [CHANNELS]


def get_workloads(device_type: str = "cpu") -> list[Workload]:
    batch, held_out, dtype = (2048, 512, "float16") if device_type == "cuda" else (64, 48, None)
    return [
        Workload(name=f"{batch}x200", axes={"batch": batch}, dtype=dtype),
        Workload(name=f"{held_out}x200", role=Role.HELD_OUT, axes={"batch": held_out}, dtype=dtype),
        Workload(name="1x1", role=Role.STRESS, axes={"batch": 1, "length": 1}, dtype=dtype),
        Workload(name="5x123", role=Role.STRESS, axes={"batch": 5, "length": 123}, dtype=dtype),
        Workload(name="strided", role=Role.STRESS, axes={"batch": 3, "length": 64}, dtype=dtype, contiguous=False),
    ]
