"""16-bit inputs through the conversions of ke_math.h, strides of a transposed input, two dtypes."""

import torch
from kernelevolve.languages import cpp

GOOD = {"problem": "half_scale", "targets": ["cpu"], "needs": ["cpp"]}

KERNEL = cpp.build(r"""
#include "ke_math.h"
#include <cmath>
#include <cstdint>
#include <cstring>
static inline float wide(uint16_t v) { uint32_t b = (uint32_t)v << 16; float f; std::memcpy(&f, &b, 4); return f; }
static inline uint16_t narrow(float f) {
    uint32_t b; std::memcpy(&b, &f, 4);
    return (uint16_t)((b + 0x7fff + ((b >> 16) & 1)) >> 16);
}
extern "C" void go(const ke::bf16* a0, const ke::bf16* b0, ke::bf16* y0, float f, int64_t n) {
    auto a = (const uint16_t*)a0; auto b = (const uint16_t*)b0; auto y = (uint16_t*)y0;
    #pragma omp parallel for
    for (int64_t i = 0; i < n; ++i)
        for (int64_t j = 0; j < n; ++j) {
            float scaled = wide(narrow(wide(b[j * n + i]) * f));
            float s = wide(narrow(wide(a[i * n + j]) + scaled));
            y[i * n + j] = narrow(1.0f / (1.0f + std::exp(-s)));
        }
}
""")


class ModelNew(torch.nn.Module):
    def forward(self, a, b, factor):
        if a.dtype is not torch.bfloat16:
            return torch.sigmoid(a + b.t() * factor)
        y = torch.empty(a.shape, dtype=a.dtype)
        KERNEL.go(a.contiguous(), b.contiguous(), y, factor, a.shape[0])
        return y
