"""A softmax that subtracts the maximum in another place."""

import torch

GOOD = {"problem": "softmax_wide", "targets": ["cpu", "nvidia"], "effort": "promotion"}


class ModelNew(torch.nn.Module):
    def forward(self, x):
        e = torch.exp(x - x.amax(-1, keepdim=True))
        return e * (1.0 / e.sum(-1, keepdim=True))
