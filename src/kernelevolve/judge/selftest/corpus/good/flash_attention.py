"""Attention by blocks with a running maximum: another algorithm, other rounding."""

import torch

GOOD = {"problem": "attention", "targets": ["cpu", "nvidia"]}


class ModelNew(torch.nn.Module):
    def forward(self, q, k, v):
        n, block = q.shape[-2], 64
        scale = q.shape[-1] ** -0.5
        qf = q.float() * scale
        best = torch.full(q.shape[:-1], float("-inf"), device=q.device)
        total = torch.zeros_like(best)
        out = torch.zeros(q.shape, device=q.device)
        rows = torch.arange(n, device=q.device)
        for start in range(0, n, block):
            keys = slice(start, start + block)
            scores = qf @ k[..., keys, :].float().transpose(-1, -2)
            scores = scores.masked_fill(rows[:, None] < rows[None, keys], float("-inf"))
            top = torch.maximum(best, scores.amax(-1))
            shift = torch.where(torch.isinf(top), 0.0, top)
            p = torch.exp(scores - shift[..., None])
            old = torch.exp(best - shift)
            total = total * old + p.sum(-1)
            out = out * old[..., None] + p @ v[..., keys, :].float()
            best = top
        return (out / total[..., None]).to(q.dtype)
