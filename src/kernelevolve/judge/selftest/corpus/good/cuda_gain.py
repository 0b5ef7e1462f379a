"""CUDA C++ through NVRTC."""

import torch
from kernelevolve.languages import cuda

GOOD = {"problem": "gain_relu", "targets": ["nvidia"], "needs": ["cuda"], "effort": "promotion"}

KERNEL = cuda.build(r"""
extern "C" __global__ void scale(const float* x, const float* w, float* y, int64_t n, int columns) {
    for (int64_t i = blockIdx.x * (int64_t)blockDim.x + threadIdx.x; i < n; i += (int64_t)gridDim.x * blockDim.x) {
        float p = x[i] * w[i % columns];
        y[i] = (p > 0 ? p : 0) + x[i];
    }
}
""").kernel("scale")


class ModelNew(torch.nn.Module):
    def __init__(self, features):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.empty(features))

    def forward(self, x):
        x = x.contiguous()
        y = torch.empty_like(x)
        KERNEL.launch(min(4096, (x.numel() + 255) // 256), 256, [x, self.weight, y, x.numel(), x.shape[-1]])
        return y
