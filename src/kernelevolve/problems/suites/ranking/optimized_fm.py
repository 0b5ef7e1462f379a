"""Factorisation machine of a Wukong layer, in the association in which it is published: ``X (Xᵀ Y)``.

Published with KernelEvolve as "Optimized FM" (arXiv 2512.23236, section 5.3.1; the layer is that of Zhang et al.,
2024), with the sizes (batch, n, d, k) that a GPU gets here, at 2.1 to 3.9 times the speed of compiled PyTorch. Its
dtype is not given; fp16 is ours, and so are the sizes on a CPU. With n far below d and k the other association,
``(X Xᵀ) Y``, needs a fraction of the work: a win that is algebra, not kernel, and should be told as such.
"""

import torch
from torch import Tensor, nn

from kernelevolve.problems import Role, Workload


class Model(nn.Module):
    """X (batch, n, d) and Y (batch, n, k) -> (batch, n, k)."""

    def forward(self, x: Tensor, y: Tensor) -> Tensor:
        return torch.bmm(x, torch.bmm(x.transpose(1, 2), y))


def get_inputs(batch: int = 64, n: int = 24, d: int = 224, k: int = 448) -> list[Tensor]:
    # Columns of unit length keep the result near the size of Y, inside the range of fp16.
    return [torch.randn(batch, n, d) / d**0.5, torch.randn(batch, n, k)]


def get_init_inputs() -> list[int]:
    return []


def get_workloads(device_type: str = "cpu") -> list[Workload]:
    if device_type == "cuda":
        dtype, search, held_out = "float16", [(1024, 24, 224, 2198), (1024, 40, 224, 448)], (1024, 48, 224, 448)
    else:
        dtype, search, held_out = None, [(64, 24, 224, 448)], (48, 40, 224, 448)
    cases = [(Role.SEARCH, sizes) for sizes in search]
    cases += [(Role.HELD_OUT, held_out), (Role.STRESS, (3, 5, 17, 33))]
    return [
        Workload(name=f"{b}x{n}x{d}x{k}", role=role, axes={"batch": b, "n": n, "d": d, "k": k}, dtype=dtype)
        for role, (b, n, d, k) in cases
    ]
