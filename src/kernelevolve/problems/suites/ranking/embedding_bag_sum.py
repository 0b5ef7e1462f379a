"""Pooled embeddings of several tables: ``out[b, t, :]`` is the sum of the rows of table t that bag (b, t) names.

The first layer of DLRM (Naumov et al., 2019). The tables are stacked in one weight, and the bags of all tables are
given one after another by offsets, so that one call pools them all. Ids follow Zipf's law with exponent 1.05, bag
lengths are log-normal around 20 and about one bag in ten is empty. On a GPU the sizes are the defaults of FBGEMM's
benchmark of table-batched embeddings (32 tables of 100,000 rows of 128, batch 512, fp16); on a CPU they are ours.
"""

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from kernelevolve.problems import Role, Workload
from kernelevolve.problems.suites.generators import bag_offsets, ragged_lengths, zipf_ids

SIZES = {"cpu": (8, 40_000, 64), "cuda": (32, 100_000, 128)}
"""Device type -> tables, rows of each, width of a row."""


class Model(nn.Module):
    """Ids (sum of bag lengths,) into the stacked tables and offsets (tables * batch,) -> (batch, tables, width)."""

    def __init__(self, tables: int, rows: int, width: int) -> None:
        super().__init__()
        self.tables = tables
        self.weight = nn.Parameter(torch.randn(tables * rows, width))

    def forward(self, ids: Tensor, offsets: Tensor) -> Tensor:
        pooled = F.embedding_bag(ids, self.weight, offsets, mode="sum")
        return pooled.view(self.tables, -1, pooled.shape[-1]).transpose(0, 1)


def get_inputs(batch: int = 2048, length: int = 20, device_type: str = "cpu") -> list[Tensor]:
    tables, rows, _ = SIZES[device_type]
    ids = [zipf_ids(batch * length, rows) + table * rows for table in range(tables)]
    lengths = [ragged_lengths(batch, batch * length) for _ in range(tables)]
    return [torch.cat(ids), bag_offsets(torch.cat(lengths))]


def get_init_inputs(device_type: str = "cpu") -> list[int]:
    return list(SIZES[device_type])


def get_workloads(device_type: str = "cpu") -> list[Workload]:
    batch, dtype = (512, "float16") if device_type == "cuda" else (2048, None)
    return [
        Workload(name=f"batch-{batch}", axes={"batch": batch}, dtype=dtype),
        Workload(name="batch-131", role=Role.HELD_OUT, axes={"batch": 131, "length": 11}, dtype=dtype),
        Workload(name="one-bag", role=Role.STRESS, axes={"batch": 1, "length": 3}, dtype=dtype),
        Workload(name="one-hot", role=Role.STRESS, axes={"batch": 512, "length": 1}, dtype=dtype),
    ]
