"""A Triton reduction with two outputs."""

import torch
import triton
import triton.language as tl

GOOD = {"problem": "rms_norm", "targets": ["nvidia"], "needs": ["triton"], "effort": "promotion"}


@triton.jit
def kernel(x, r, g, y, h, n, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    j = tl.arange(0, BLOCK)
    inside = j < n
    v = tl.load(x + row * n + j, inside, other=0.0) + tl.load(r + row * n + j, inside, other=0.0)
    scale = 1.0 / tl.sqrt(tl.sum(v * v) / n + 1e-6)
    tl.store(h + row * n + j, v, inside)
    tl.store(y + row * n + j, v * scale * tl.load(g + j, inside), inside)


class ModelNew(torch.nn.Module):
    def __init__(self, features):
        super().__init__()
        self.gain = torch.nn.Parameter(torch.empty(features))

    def forward(self, x, residual):
        x, residual = x.contiguous(), residual.contiguous()
        y, h = torch.empty_like(x), torch.empty_like(x)
        kernel[(len(x),)](x, residual, self.gain, y, h, x.shape[1], BLOCK=triton.next_power_of_2(x.shape[1]))
        return y, h
