"""A LayerNorm in two passes with its weights, and names that say otherwise."""

import torch

GOOD = {"problem": "layer_norm", "targets": ["cpu", "nvidia"], "effort": "promotion"}


class ModelNew(torch.nn.Module):
    def __init__(self, features):
        super().__init__()
        self.norm = torch.nn.LayerNorm(features)

    def forward(self, identity):
        centred = identity - identity.mean(-1, keepdim=True)
        copy = centred * torch.rsqrt(centred.square().mean(-1, keepdim=True) + self.norm.eps)
        return torch.addcmul(self.norm.bias, copy, self.norm.weight)
