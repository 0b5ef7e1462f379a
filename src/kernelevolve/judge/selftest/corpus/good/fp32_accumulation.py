"""16-bit arithmetic done in fp32 and rounded once: nearer to the truth than the reference, and not equal to it."""

import torch

GOOD = {"problem": "half_scale", "targets": ["cpu", "nvidia"], "effort": "promotion"}


class ModelNew(torch.nn.Module):
    def forward(self, a, b, factor):
        return torch.sigmoid(a.float() + b.float().t() * factor).to(a.dtype)
