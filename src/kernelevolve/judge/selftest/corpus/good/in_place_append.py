"""An input is written to, as the reference does it, and returned."""

import torch

GOOD = {"problem": "append_cache", "targets": ["cpu", "nvidia"], "effort": "promotion"}


class ModelNew(torch.nn.Module):
    def forward(self, cache, row, position, query):
        cache.select(1, position).copy_(row)
        return torch.bmm(cache, query.unsqueeze(-1)).squeeze(-1), cache
