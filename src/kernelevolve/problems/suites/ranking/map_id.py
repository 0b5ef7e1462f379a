"""MapId: raw ids to rows of a sorted vocabulary, 0 for an unknown id.

``i = bucketize(v, vocabulary)``; the result is ``i + 1`` where ``vocabulary[i] == v``, else 0. The formula is published
with KernelEvolve (section 5.4.1, sizes 100 x 10,000 to 10,000 x 50,000); the 4M x 1M size is ours. About one id in eight
is unknown.
"""

import torch
from torch import nn

from kernelevolve.problems import Role, Workload


class Model(nn.Module):
    def forward(self, values, vocabulary):
        at = torch.clamp(torch.bucketize(values, vocabulary), max=vocabulary.numel() - 1)
        return torch.where(torch.gather(vocabulary, 0, at) == values, at + 1, 0)


def get_inputs(ids=100000, vocabulary=50000):
    # Gaps of at least one keep the vocabulary sorted and free of repeats.
    known = torch.randint(1, 1 << 20, (vocabulary,)).cumsum(0)
    values = known[torch.randint(0, vocabulary, (ids,))]
    unknown = torch.randint(0, 1 << 40, (ids,))
    return [torch.where(torch.rand(ids) < 0.125, unknown, values), known]


def get_init_inputs():
    return []


def get_workloads(device_type="cpu"):
    if device_type == "cuda":
        search = [(10000, 50000), (4000000, 1000000)]
    else:
        search = [(100000, 50000)]
    return [
        *(Workload(name=f"{n}x{m}", axes={"ids": n, "vocabulary": m}) for n, m in search),
        Workload(name="7777x10000", role=Role.HELD_OUT, axes={"ids": 7777, "vocabulary": 10000}),
        Workload(name="13x1", role=Role.STRESS, axes={"ids": 13, "vocabulary": 1}),
        Workload(name="1x100", role=Role.STRESS, axes={"ids": 1, "vocabulary": 100}),
    ]
