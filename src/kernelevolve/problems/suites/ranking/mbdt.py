"""Merged bucketize of dense features: every feature has borders of its own, bucket ids of all features are disjoint.

``out[f, b] = bucketize(x[f, b], borders_f) + sum of the bucket counts of the features before f``. A reconstruction of
KernelEvolve's MergeBucketizedDense (section 5.4.2): the published text gives the idea and one example, not the sizes.
"""

import torch
from torch import nn

from kernelevolve.problems import Role, Workload

feature_count = 64


class Model(nn.Module):
    def __init__(self, feature_count):
        super().__init__()
        generator = torch.Generator().manual_seed(7)
        self.counts = torch.randint(16, 129, (feature_count,), generator=generator, device="cpu").tolist()
        for f, count in enumerate(self.counts):
            self.register_buffer(f"borders_{f}", torch.randn(count).sort().values)

    def forward(self, values):
        merged, base = [], 0
        for f, count in enumerate(self.counts):
            merged.append(torch.bucketize(values[f], getattr(self, f"borders_{f}")) + base)
            base += count + 1
        return torch.stack(merged)


def get_inputs(batch=8192):
    return [torch.randn(feature_count, batch)]


def get_init_inputs():
    return [feature_count]


def get_workloads(device_type="cpu"):
    batch = 65536 if device_type == "cuda" else 8192
    return [
        Workload(name=f"batch-{batch}", axes={"batch": batch}),
        Workload(name="batch-1111", role=Role.HELD_OUT, axes={"batch": 1111}),
        Workload(name="one-row", role=Role.STRESS, axes={"batch": 1}),
    ]
