"""An honest try and except around an import that may be missing."""

import torch

try:
    import numba
except ImportError:
    numba = None

GOOD = {"problem": "gain_relu", "targets": ["cpu", "nvidia"]}


class ModelNew(torch.nn.Module):
    def __init__(self, features):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.empty(features))

    def forward(self, x):
        return torch.clamp_min(x * self.weight, 0).add_(x)
