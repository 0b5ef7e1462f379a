"""A workspace is kept between calls, and what is returned is new each time."""

import torch

GOOD = {"problem": "rms_norm", "targets": ["cpu", "nvidia"]}


class ModelNew(torch.nn.Module):
    def __init__(self, features):
        super().__init__()
        self.gain = torch.nn.Parameter(torch.empty(features))
        self.space = None

    def forward(self, x, residual):
        if self.space is None or self.space.shape != x.shape or self.space.device != x.device:
            self.space = torch.empty_like(x)
        h = x + residual
        torch.mul(h, h, out=self.space)
        return h * torch.rsqrt(self.space.mean(-1, keepdim=True) + 1e-6) * self.gain, h
