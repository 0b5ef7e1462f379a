"""A masked Triton kernel with num_stages=2."""

import torch
import triton
import triton.language as tl

GOOD = {"problem": "gain_relu", "targets": ["nvidia"], "needs": ["triton"], "effort": "promotion"}


@triton.jit
def kernel(x, w, y, n, columns, BLOCK: tl.constexpr):
    i = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    v = tl.load(x + i, i < n)
    p = v * tl.load(w + i % columns, i < n)
    tl.store(y + i, tl.maximum(p, 0.0) + v, i < n)


class ModelNew(torch.nn.Module):
    def __init__(self, features):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.empty(features))

    def forward(self, x):
        x = x.contiguous()
        y = torch.empty_like(x)
        kernel[(triton.cdiv(x.numel(), 1024),)](x, self.weight, y, x.numel(), x.shape[-1], BLOCK=1024, num_stages=2)
        return y
