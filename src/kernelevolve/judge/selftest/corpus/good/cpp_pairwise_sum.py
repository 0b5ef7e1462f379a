"""Sums in double precision: more exact than the reference."""

import torch
from kernelevolve.languages import cpp

GOOD = {"problem": "row_sums", "targets": ["cpu"], "needs": ["cpp"], "effort": "promotion"}

KERNEL = cpp.build(r"""
#include <cstdint>
extern "C" void sums(const float* x, float* rows, float* columns, int64_t m, int64_t n, int64_t sm, int64_t sn) {
    for (int64_t i = 0; i < m; ++i) {
        double total = 0;
        for (int64_t j = 0; j < n; ++j) total += x[i * sm + j * sn];
        rows[i] = total;
    }
    for (int64_t j = 0; j < n; ++j) {
        double total = 0;
        for (int64_t i = 0; i < m; ++i) total += x[i * sm + j * sn];
        columns[j] = total;
    }
}
""")


class ModelNew(torch.nn.Module):
    def forward(self, x):
        rows, columns = torch.empty(x.shape[0]), torch.empty(x.shape[1])
        KERNEL.sums(x, rows, columns, x.shape[0], x.shape[1], x.stride(0), x.stride(1))
        return rows, columns
