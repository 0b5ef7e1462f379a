"""Column sums by atomic additions, whose order differs from call to call."""

import torch
from kernelevolve.languages import cpp

GOOD = {"problem": "row_sums", "targets": ["cpu"], "needs": ["cpp"]}

KERNEL = cpp.build(r"""
#include <cstdint>
#include <vector>
extern "C" void sums(const float* x, float* rows, float* columns, int64_t m, int64_t n) {
    #pragma omp parallel
    {
        std::vector<float> mine(n, 0.0f);
        #pragma omp for
        for (int64_t i = 0; i < m; ++i) {
            float total = 0;
            #pragma omp simd reduction(+ : total)
            for (int64_t j = 0; j < n; ++j) total += x[i * n + j];
            for (int64_t j = 0; j < n; ++j) mine[j] += x[i * n + j];
            rows[i] = total;
        }
        for (int64_t j = 0; j < n; ++j) {
            #pragma omp atomic
            columns[j] += mine[j];
        }
    }
}
""")


class ModelNew(torch.nn.Module):
    def forward(self, x):
        x = x.contiguous()
        rows, columns = torch.empty(x.shape[0]), torch.zeros(x.shape[1])
        KERNEL.sums(x, rows, columns, x.shape[0], x.shape[1])
        return rows, columns
