"""Statistics and gains of a batch norm folded into two vectors beforehand."""

import torch

GOOD = {"problem": "batch_norm", "targets": ["cpu", "nvidia"], "effort": "promotion"}


class ModelNew(torch.nn.Module):
    @classmethod
    def from_reference(cls, skeleton, channels):
        self = cls()
        norm = skeleton.norm
        self.scale = (norm.weight * torch.rsqrt(norm.running_var + 1e-5)).detach()[:, None, None]
        self.shift = (norm.bias - norm.running_mean * self.scale.view(-1)).detach()[:, None, None]
        return self

    def forward(self, x):
        return torch.addcmul(self.shift, x, self.scale).relu_()
