"""A program that prints warnings and progress."""

import sys
import warnings

import torch

GOOD = {"problem": "gain_relu", "targets": ["cpu", "nvidia"]}

warnings.warn("this kernel was written by hand", stacklevel=1)


class ModelNew(torch.nn.Module):
    def __init__(self, features):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.empty(features))

    def forward(self, x):
        print("FAIL: not really", file=sys.stderr)
        return torch.relu(x * self.weight) + x
