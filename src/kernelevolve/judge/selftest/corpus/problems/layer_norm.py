"""LayerNorm as PyTorch initialises it: on standard normal inputs nearly the identity. It names no workloads."""

import torch


class Model(torch.nn.Module):
    def __init__(self, features):
        super().__init__()
        self.norm = torch.nn.LayerNorm(features)

    def forward(self, x):
        return self.norm(x)


def get_inputs():
    return [torch.randn(256, 1024)]


def get_init_inputs():
    return [1024]
