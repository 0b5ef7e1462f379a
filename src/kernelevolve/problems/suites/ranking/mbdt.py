"""Merged bucketize of dense features: each feature has borders of its own, and the bucket ids of all are disjoint.

``out[f, b]`` is the number of borders of f below ``x[f, b]``, plus ``first_id[f]``, the number of buckets of all
features before f. A reconstruction of KernelEvolve's MergeBucketizedDense (arXiv 2512.23236, section 5.4.2): published
are the idea, one worked example, two sizes (batch x features x borders of 64 x 2 x 2 and 2048 x 2 x 4) and times on
MTIA, but not the operator. The larger sizes are ours, and so is the ragged number of borders, padded with infinity so
that one call searches all features.
"""

import torch
from torch import Tensor, nn

from kernelevolve.problems import Role, Workload

SIZES = {"cpu": (64, 32), "cuda": (512, 128)}
"""Device type -> features, borders of a feature in the mean."""


class Model(nn.Module):
    """Values (features, batch) -> bucket ids (features, batch), int64."""

    borders: Tensor
    first_id: Tensor

    def __init__(self, features: int, borders: int) -> None:
        super().__init__()
        counts = torch.arange(features) * 37 % (2 * borders - 1) + 1  # 1 to 2 * borders - 1, in no order.
        values = torch.randn(features, 2 * borders - 1)
        values[torch.arange(values.shape[1]) >= counts[:, None]] = float("inf")
        self.register_buffer("borders", values.sort(dim=-1).values)
        self.register_buffer("first_id", (counts + 1).cumsum(0) - (counts + 1))

    def forward(self, values: Tensor) -> Tensor:
        return torch.searchsorted(self.borders, values) + self.first_id[:, None]


def get_inputs(batch: int = 2048, device_type: str = "cpu") -> list[Tensor]:
    return [torch.randn(SIZES[device_type][0], batch)]


def get_init_inputs(device_type: str = "cpu") -> list[int]:
    return list(SIZES[device_type])


def get_workloads(device_type: str = "cpu") -> list[Workload]:
    batch = 8192 if device_type == "cuda" else 2048
    return [
        Workload(name=f"batch-{batch}", axes={"batch": batch}),
        Workload(name="batch-1111", role=Role.HELD_OUT, axes={"batch": 1111}),
        Workload(name="one-value", role=Role.STRESS, axes={"batch": 1}),
    ]
