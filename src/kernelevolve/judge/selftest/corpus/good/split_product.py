"""An fp32 product from three products of 16-bit parts with fp32 sums: as exact as fp32 arithmetic."""

import torch

GOOD = {"problem": "matmul", "targets": ["cpu", "nvidia"]}


def parts(x):
    high = x.bfloat16().float()
    middle = (x - high).bfloat16().float()
    return high, middle, x - high - middle


class ModelNew(torch.nn.Module):
    def forward(self, a, b):
        a1, a2, a3 = parts(a)
        b1, b2, b3 = parts(b)
        return (a3 @ b1 + a2 @ b2 + a1 @ b3) + (a2 @ b1 + a1 @ b2) + a1 @ b1
