"""OpenMP and SIMD, plain C pointers, no torch operator in the call."""

import torch
from kernelevolve.languages import cpp

GOOD = {"problem": "gain_relu", "targets": ["cpu"], "needs": ["cpp"], "effort": "promotion"}

KERNEL = cpp.build(r"""
#include <cstdint>
extern "C" void scale(const float* x, const float* w, float* y, int64_t rows, int64_t columns) {
    #pragma omp parallel for
    for (int64_t i = 0; i < rows; ++i)
        for (int64_t j = 0; j < columns; ++j) {
            float p = x[i * columns + j] * w[j];
            y[i * columns + j] = (p > 0 ? p : 0) + x[i * columns + j];
        }
}
""")


class ModelNew(torch.nn.Module):
    def __init__(self, features):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.empty(features))

    def forward(self, x):
        x = x.contiguous()
        y = torch.empty_like(x)  # torch.empty is no crime: every element is written.
        KERNEL.scale(x, self.weight, y, x.shape[0], x.shape[1])
        return y
