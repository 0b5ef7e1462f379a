"""A row written into a cache in place, and the scores of a query against the cache."""

import torch

from kernelevolve.problems import Role, Workload


class Model(torch.nn.Module):
    def forward(self, cache, row, position, query):
        cache[:, position] = row
        return torch.einsum("bnd,bd->bn", cache, query), cache


def get_inputs(batch=8, length=512):
    position = int(torch.randint(0, length, ()))
    return [torch.randn(batch, length, 64), torch.randn(batch, 64), position, torch.randn(batch, 64)]


def get_workloads(device_type="cpu"):
    batch = 128 if device_type == "cuda" else 8
    return [
        Workload(name=f"batch-{batch}", axes={"batch": batch}),
        Workload(name="short", role=Role.HELD_OUT, axes={"length": 37}),
    ]
