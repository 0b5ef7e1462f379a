"""Infinities and not-a-numbers where they belong."""

import torch

GOOD = {"problem": "masked_log", "targets": ["cpu", "nvidia"], "effort": "promotion"}


class ModelNew(torch.nn.Module):
    def forward(self, x, keep):
        return torch.log(x).masked_fill_(~keep, float("-inf"))
