"""MapId: raw ids to their places in a sorted vocabulary, counted from 1; 0 for an id that is not in it.

``i = bucketize(id, vocabulary)``, then ``i + 1`` where ``vocabulary[i] == id``, else 0. The formula and the sizes (100
ids known and 10,000 given, up to 10,000 and 50,000) are those of KernelEvolve's MapIdTransform (arXiv 2512.23236,
section 5.4.1 and table 7; its times are for MTIA, the dtype is not given). A million known and four million given is
ours, because the published sizes keep a GPU no longer than a launch does. One id in eight is unknown.
"""

import torch
from torch import Tensor, nn

from kernelevolve.problems import Role, Workload
from kernelevolve.problems.suites.generators import sorted_ids, zipf_ids

UNKNOWN = 0.125


class Model(nn.Module):
    """Ids (count,) and an ascending vocabulary (size,), both int64 -> places (count,), int64."""

    def forward(self, ids: Tensor, vocabulary: Tensor) -> Tensor:
        place = torch.bucketize(ids, vocabulary).clamp(max=vocabulary.numel() - 1)
        return torch.where(torch.gather(vocabulary, 0, place) == ids, place + 1, 0)


def get_inputs(vocabulary: int = 10_000, ids: int = 50_000) -> list[Tensor]:
    known = sorted_ids(vocabulary)
    drawn = known[zipf_ids(ids, vocabulary)]
    # An id one above a known one is itself unknown, but for the rare neighbours without a gap.
    return [drawn + (torch.rand(ids) < UNKNOWN), known]


def get_init_inputs() -> list[int]:
    return []


def get_workloads(device_type: str = "cpu") -> list[Workload]:
    search = [(10_000, 50_000), (1_000_000, 4_000_000)] if device_type == "cuda" else [(10_000, 50_000)]
    cases = [(Role.SEARCH, v, n) for v, n in search]
    cases += [(Role.HELD_OUT, 5_000, 10_000), (Role.STRESS, 1, 13), (Role.STRESS, 100, 1)]
    return [Workload(name=f"{v}x{n}", role=role, axes={"vocabulary": v, "ids": n}) for role, v, n in cases]
