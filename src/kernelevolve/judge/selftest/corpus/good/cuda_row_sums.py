"""Row sums by warps and column sums by atomics, in CUDA C++."""

import torch
from kernelevolve.languages import cuda

GOOD = {"problem": "row_sums", "targets": ["nvidia"], "needs": ["cuda"]}

KERNEL = cuda.build(r"""
extern "C" __global__ void sums(const float* x, float* rows, float* columns, int n) {
    __shared__ float parts[8];
    const float* row = x + blockIdx.x * (int64_t)n;
    float total = 0;
    for (int j = threadIdx.x; j < n; j += blockDim.x) {
        total += row[j];
        atomicAdd(columns + j, row[j]);
    }
    for (int o = 16; o; o /= 2) total += __shfl_down_sync(0xffffffff, total, o);
    if (threadIdx.x % 32 == 0) parts[threadIdx.x / 32] = total;
    __syncthreads();
    if (threadIdx.x == 0) {
        total = 0;
        for (int i = 0; i < 8; ++i) total += parts[i];
        rows[blockIdx.x] = total;
    }
}
""").kernel("sums")


class ModelNew(torch.nn.Module):
    def forward(self, x):
        x = x.contiguous()
        rows = torch.empty(len(x), device=x.device)
        columns = torch.zeros(x.shape[1], device=x.device)
        KERNEL.launch(len(x), 256, [x, rows, columns, x.shape[1]])
        return rows, columns
