"""A product of two inputs with a long sum, in fp32."""

import torch

from kernelevolve.problems import Role, Workload


class Model(torch.nn.Module):
    def forward(self, a, b):
        return a @ b


def get_inputs(n=256, k=1024):
    return [torch.randn(n, k), torch.randn(k, n)]


def get_workloads(device_type="cpu"):
    n, k = (2048, 4096) if device_type == "cuda" else (256, 1024)
    return [
        Workload(name=f"n-{n}", axes={"n": n, "k": k}),
        Workload(name="odd", role=Role.HELD_OUT, axes={"n": 67, "k": 301}),
        Workload(name="one", role=Role.STRESS, axes={"n": 1, "k": 17}),
    ]
