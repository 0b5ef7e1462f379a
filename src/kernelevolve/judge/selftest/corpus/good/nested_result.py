"""A nested result with integers, None and a number, put together another way."""

import torch

GOOD = {"problem": "moments", "targets": ["cpu", "nvidia"], "effort": "promotion"}


class ModelNew(torch.nn.Module):
    def forward(self, x):
        variance, mean = torch.var_mean(x, dim=-1, unbiased=False)
        return dict(where=x.max(-1).indices, mean=mean, rest=[variance, None, x.shape[-1]])
