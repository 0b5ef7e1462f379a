"""A blocked product in C++ with sums in another order."""

import torch
from kernelevolve.languages import cpp

GOOD = {"problem": "matmul", "targets": ["cpu"], "needs": ["cpp"], "effort": "promotion"}

KERNEL = cpp.build(r"""
#include <cstdint>
extern "C" void product(const float* a, const float* b, float* c, int64_t n, int64_t k, int64_t m) {
    #pragma omp parallel for
    for (int64_t i = 0; i < n; ++i)
        for (int64_t p = 0; p < k; ++p) {
            float v = a[i * k + p];
            for (int64_t j = 0; j < m; ++j) c[i * m + j] += v * b[p * m + j];
        }
}
""")


class ModelNew(torch.nn.Module):
    def forward(self, a, b):
        c = torch.zeros(a.shape[0], b.shape[1])
        KERNEL.product(a.contiguous(), b.contiguous(), c, a.shape[0], a.shape[1], b.shape[1])
        return c
