"""A layer in training mode whose state and gradients are those of the reference."""

import torch

GOOD = {"problem": "training_step", "targets": ["cpu", "nvidia"]}


class ModelNew(torch.nn.Module):
    def __init__(self, features):
        super().__init__()
        self.norm = torch.nn.BatchNorm1d(features)
        self.weight = torch.nn.Parameter(torch.empty(features))

    def forward(self, x):
        return (self.norm(x) * self.weight).tanh()
