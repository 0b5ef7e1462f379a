"""A word or two that a rule on texts would stumble over: pass, num_stages=2, cache, seed, skip, fallback, cheat."""

import torch

GOOD = {"problem": "gain_relu", "targets": ["cpu", "nvidia"]}

# There is no cheat here: no cached output, no timer, no monkeypatch, no sleep. pytest.skip is not called either.
CONFIG_OF_ANOTHER_CHIP = dict(num_stages=2, num_warps=4)


class Unused:
    pass


class ModelNew(torch.nn.Module):
    def __init__(self, features):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.empty(features))

    def forward(self, x):
        if x.numel() == 0:
            pass
        return torch.addcmul(x, x, self.weight).where(x * self.weight > 0, x)
