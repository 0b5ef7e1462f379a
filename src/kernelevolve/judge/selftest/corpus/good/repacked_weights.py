"""Weights are transposed once, through from_reference."""

import torch

GOOD = {"problem": "linear_gelu", "targets": ["cpu", "nvidia"], "effort": "promotion"}


class ModelNew(torch.nn.Module):
    @classmethod
    def from_reference(cls, skeleton, features):
        self = cls()
        self.packed = skeleton.weight.detach().t().contiguous()
        self.bias = skeleton.bias.detach().clone()
        return self

    def forward(self, x):
        return torch.nn.functional.gelu(torch.addmm(self.bias, x, self.packed))
