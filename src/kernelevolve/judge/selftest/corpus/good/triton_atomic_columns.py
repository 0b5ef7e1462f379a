"""Column sums by atomic additions in Triton: their order differs from call to call."""

import torch
import triton
import triton.language as tl

GOOD = {"problem": "row_sums", "targets": ["nvidia"], "needs": ["triton"]}


@triton.jit
def kernel(x, rows, columns, n, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    total = 0.0
    for start in range(0, n, BLOCK):
        j = start + tl.arange(0, BLOCK)
        v = tl.load(x + row * n + j, j < n, other=0.0)
        total += tl.sum(v)
        tl.atomic_add(columns + j, v, j < n)
    tl.store(rows + row, total)


class ModelNew(torch.nn.Module):
    def forward(self, x):
        x = x.contiguous()
        rows = torch.empty(len(x), device=x.device)
        columns = torch.zeros(x.shape[1], device=x.device)
        kernel[(len(x),)](x, rows, columns, x.shape[1], BLOCK=1024)
        return rows, columns
