"""Declared numbers with a constraint, read from CONFIG."""

import torch
from kernelevolve.candidates.space import PowerOfTwo, TunableSpace

GOOD = {"problem": "gain_relu", "targets": ["cpu", "nvidia"]}

TUNABLES = TunableSpace({"ROWS": PowerOfTwo(16, 256, 64)})
CONFIG = TUNABLES.default


class ModelNew(torch.nn.Module):
    def __init__(self, features):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.empty(features))

    def forward(self, x):
        parts = [torch.relu(part * self.weight) + part for part in x.split(CONFIG["ROWS"])]
        return torch.cat(parts)
