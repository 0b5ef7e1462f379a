"""Causal attention in bfloat16."""

import torch

from kernelevolve.problems import Role, Workload


class Model(torch.nn.Module):
    def forward(self, q, k, v):
        return torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)


def get_inputs(batch=2, length=256):
    return [torch.randn(batch, 4, length, 64) for _ in range(3)]


def get_workloads(device_type="cpu"):
    batch, length = (8, 2048) if device_type == "cuda" else (2, 256)
    return [
        Workload(name=f"length-{length}", axes={"batch": batch, "length": length}, dtype="bfloat16"),
        Workload(name="length-131", role=Role.HELD_OUT, axes={"length": 131}, dtype="bfloat16"),
        Workload(name="sharp", role=Role.STRESS, axes={"length": 64}, dtype="bfloat16", distribution={"scale": 3.0}),
    ]
