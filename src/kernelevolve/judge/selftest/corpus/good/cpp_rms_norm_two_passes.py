"""A reduction in another order than torch's, two outputs, rows in parallel."""

import torch
from kernelevolve.languages import cpp

GOOD = {"problem": "rms_norm", "targets": ["cpu"], "needs": ["cpp"], "effort": "promotion"}

KERNEL = cpp.build(r"""
#include <cmath>
#include <cstdint>
extern "C" void norm(const float* x, const float* r, const float* g, float* y, float* h, int64_t rows, int64_t n) {
    #pragma omp parallel for
    for (int64_t i = 0; i < rows; ++i) {
        float total = 0;
        #pragma omp simd reduction(+ : total)
        for (int64_t j = 0; j < n; ++j) {
            float v = x[i * n + j] + r[i * n + j];
            h[i * n + j] = v;
            total += v * v;
        }
        float s = 1.0f / std::sqrt(total / n + 1e-6f);
        for (int64_t j = 0; j < n; ++j) y[i * n + j] = h[i * n + j] * s * g[j];
    }
}
""")


class ModelNew(torch.nn.Module):
    def __init__(self, features):
        super().__init__()
        self.gain = torch.nn.Parameter(torch.empty(features))

    def forward(self, x, residual):
        x, residual = x.contiguous(), residual.contiguous()
        y, h = torch.empty_like(x), torch.empty_like(x)
        KERNEL.norm(x, residual, self.gain, y, h, x.shape[0], x.shape[1])
        return y, h
