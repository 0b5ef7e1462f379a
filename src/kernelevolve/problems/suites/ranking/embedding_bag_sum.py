"""Pooled embeddings of several tables: ``out[b, t, :] = sum of table_t[i] for i in bag(b, t)``.

Ids are skewed (Zipf, exponent 1.05), bag lengths log-normal with about one bag in ten empty, as in recommendation logs.
Indices and offsets of all tables are passed one after another.
"""

import torch
import torch.nn.functional as F
from torch import nn

from kernelevolve.problems import Role, Workload

tables = 8
entries = 20000
dim = 128


class Model(nn.Module):
    def __init__(self, tables, entries, dim):
        super().__init__()
        self.weights = nn.ParameterList([nn.Parameter(torch.randn(entries, dim)) for _ in range(tables)])

    def forward(self, indices, offsets):
        pooled = [
            F.embedding_bag(ids, weight, starts, mode="sum")
            for ids, starts, weight in zip(indices, offsets, self.weights)
        ]
        return torch.stack(pooled, dim=1)


def zipf(count, size, exponent=1.05):
    """Ids in [0, size) drawn by inverse transform of a bounded power law, then shuffled over the table."""
    u = torch.rand(count)
    ranks = ((size ** (1 - exponent) - 1) * u + 1).pow(1 / (1 - exponent)).long().clamp(1, size) - 1
    return (ranks * 7919) % size


def get_inputs(bags=512, mean_length=20):
    indices, offsets = [], []
    for _ in range(tables):
        lengths = (torch.randn(bags).mul(0.6).exp() * mean_length * 0.83).long()
        lengths = torch.where(torch.rand(bags) < 0.1, 0, lengths)
        # Every table holds the same number of ids, so that shapes stay fixed: the last bag takes the difference.
        total = bags * mean_length
        ends = lengths.cumsum(0).clamp(max=total)
        offsets.append(torch.cat([ends.new_zeros(1), ends[:-1]]))
        indices.append(zipf(total, entries))
    return [indices, offsets]


def get_init_inputs():
    return [tables, entries, dim]


def get_workloads(device_type="cpu"):
    dtype = "float16" if device_type == "cuda" else None
    bags = 2048 if device_type == "cuda" else 512
    return [
        Workload(name=f"bags-{bags}", axes={"bags": bags}, dtype=dtype),
        Workload(name="bags-131", role=Role.HELD_OUT, axes={"bags": 131, "mean_length": 11}, dtype=dtype),
        Workload(name="one-bag", role=Role.STRESS, axes={"bags": 1, "mean_length": 3}, dtype=dtype),
    ]
