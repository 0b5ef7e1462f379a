"""Rows of a table by index, through another operator."""

import torch

GOOD = {"problem": "gather_rows", "targets": ["cpu", "nvidia"], "effort": "promotion"}


class ModelNew(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.table = torch.nn.Parameter(torch.empty(20000, 64))

    def forward(self, index, scale):
        return torch.nn.functional.embedding(index, self.table).mul_(scale.unsqueeze(1))
