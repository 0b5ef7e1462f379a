"""Work on a stream of its own, which the current stream waits for."""

import torch

GOOD = {"problem": "linear_gelu", "targets": ["nvidia"]}


class ModelNew(torch.nn.Module):
    def __init__(self, features):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.empty(features, features))
        self.bias = torch.nn.Parameter(torch.empty(features))

    def forward(self, x):
        if not hasattr(self, "side"):
            self.side = torch.cuda.Stream()
        current = torch.cuda.current_stream()
        self.side.wait_stream(current)
        with torch.cuda.stream(self.side):
            y = torch.nn.functional.gelu(torch.nn.functional.linear(x, self.weight, self.bias))
        current.wait_stream(self.side)
        y.record_stream(current)
        return y
