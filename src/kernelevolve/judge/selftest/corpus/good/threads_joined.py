"""Threads that have all ended when the call returns."""

import threading

import torch

GOOD = {"problem": "gain_relu", "targets": ["cpu"]}


class ModelNew(torch.nn.Module):
    def __init__(self, features):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.empty(features))

    def forward(self, x):
        y = torch.empty_like(x)
        weight, half = self.weight.detach(), len(x) // 2

        def work(part):
            y[part] = torch.relu(x[part] * weight) + x[part]

        thread = threading.Thread(target=work, args=(slice(half, None),))
        thread.start()
        work(slice(0, half))
        thread.join()
        return y
