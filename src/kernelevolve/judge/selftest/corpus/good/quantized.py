"""Integer codes that must be equal, with the same divisions in the same order."""

import torch

GOOD = {"problem": "quantize", "targets": ["cpu", "nvidia"], "effort": "promotion"}


class ModelNew(torch.nn.Module):
    def forward(self, x):
        low, high = torch.aminmax(x, dim=-1, keepdim=True)
        scale = torch.maximum(high, -low).div_(127.0)
        return x.div(scale).round_().to(torch.int8), scale
