"""A CUDA graph that is captured for each address and shape of its inputs, and replayed on what is there."""

import torch

GOOD = {"problem": "rms_norm", "targets": ["nvidia"]}


class ModelNew(torch.nn.Module):
    def __init__(self, features):
        super().__init__()
        self.gain = torch.nn.Parameter(torch.empty(features))
        self.graphs = {}

    def compute(self, x, residual):
        h = x + residual
        return h * torch.rsqrt(h.pow(2).mean(-1, keepdim=True) + 1e-6) * self.gain, h

    def forward(self, x, residual):
        key = (x.data_ptr(), residual.data_ptr(), x.shape, x.stride(), residual.stride())
        if key not in self.graphs:
            self.compute(x, residual)
            torch.cuda.synchronize()
            graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(graph):
                out = self.compute(x, residual)
            self.graphs[key] = graph, out
        graph, out = self.graphs[key]
        graph.replay()
        return tuple(tensor.clone() for tensor in out)
