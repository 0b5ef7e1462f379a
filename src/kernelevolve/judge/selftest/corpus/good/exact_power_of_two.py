"""Subnormal numbers are kept."""

import torch

GOOD = {"problem": "subnormal", "targets": ["cpu", "nvidia"], "effort": "promotion"}


class ModelNew(torch.nn.Module):
    def forward(self, x):
        return torch.div(x, 4.0)
