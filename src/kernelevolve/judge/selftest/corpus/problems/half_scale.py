"""A scaled sum of two 16-bit tensors, one of them transposed."""

import torch

from kernelevolve.problems import Role, Workload


class Model(torch.nn.Module):
    def forward(self, a, b, factor):
        return torch.sigmoid(a + b.t() * factor)


def get_inputs(n=384):
    return [torch.randn(n, n), torch.randn(n, n), 0.75]


def get_workloads(device_type="cpu"):
    n = 4096 if device_type == "cuda" else 384
    return [
        Workload(name="bf16", axes={"n": n}, dtype="bfloat16"),
        Workload(name="fp16", role=Role.HELD_OUT, axes={"n": 61}, dtype="float16"),
        Workload(name="strided", role=Role.STRESS, axes={"n": 17}, dtype="bfloat16", contiguous=False),
    ]
