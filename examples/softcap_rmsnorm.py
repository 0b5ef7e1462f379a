"""An example to search on: bias, soft cap, RMSNorm.

    kernelevolve optimize examples/softcap_rmsnorm.py

``h = cap * tanh((x + bias) / cap)`` keeps activations within ±cap, as some language and ranking models do before a
norm; ``y = h / sqrt(mean(h²) + eps) * gain`` is the norm. PyTorch runs this as nine operators that each pass over
memory; the compiler needs two passes and computes every tanh twice. One kernel that keeps a row in cache needs one of
each.

A problem file is plain PyTorch: ``Model``, ``get_inputs()`` and ``get_init_inputs()``. Everything else is optional.
"""

import torch
from torch import nn

rows = 4096
features = 1024


class Model(nn.Module):
    """x (rows, features) -> (rows, features)."""

    def __init__(self, features: int, cap: float = 5.0, eps: float = 1e-6) -> None:
        super().__init__()
        self.bias = nn.Parameter(torch.randn(features))
        self.gain = nn.Parameter(torch.rand(features) + 0.5)
        self.cap = cap
        self.eps = eps

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        h = self.cap * torch.tanh((x + self.bias) / self.cap)
        return h * torch.rsqrt(h.pow(2).mean(-1, keepdim=True) + self.eps) * self.gain


def get_inputs() -> list[torch.Tensor]:
    return [4.0 * torch.randn(rows, features)]


def get_init_inputs() -> list[int]:
    return [features]
