"""Scaled softmax over the events of each user, padding masked out: ``softmax(where(mask, scale * scores, -inf))``.

The attention weights of a model that pools a user's history (Vaswani et al., 2017, section 3.2.1, with a padding mask).
Numbers of events are log-normal, every user has at least one. Sizes are ours; no figures are published for it.
"""

import torch
from torch import Tensor, nn

from kernelevolve.problems import Role, Workload


class Model(nn.Module):
    """Scores (users, heads, events) and mask (users, 1, events), True for an event -> weights like the scores."""

    def __init__(self, scale: float) -> None:
        super().__init__()
        self.scale = scale

    def forward(self, scores: Tensor, mask: Tensor) -> Tensor:
        return torch.softmax((scores * self.scale).masked_fill(~mask, float("-inf")), dim=-1)


def get_inputs(users: int = 512, heads: int = 4, events: int = 1024) -> list[Tensor]:
    lengths = (torch.randn(users).mul(0.8).exp() * events * 0.4).clamp(1, events).long()
    mask = torch.arange(events) < lengths[:, None, None]
    return [8.0 * torch.randn(users, heads, events), mask]


def get_init_inputs() -> list[float]:
    return [0.125]


def get_workloads(device_type: str = "cpu") -> list[Workload]:
    users, dtype = (16384, "float16") if device_type == "cuda" else (512, None)
    return [
        Workload(name=f"users-{users}", axes={"users": users}, dtype=dtype),
        Workload(name="users-201", role=Role.HELD_OUT, axes={"users": 201}, dtype=dtype),
        Workload(name="odd-sizes", role=Role.STRESS, axes={"users": 33, "heads": 3, "events": 517}, dtype=dtype),
        Workload(name="one-event", role=Role.STRESS, axes={"users": 65, "events": 1}, dtype=dtype),
        Workload(name="strided", role=Role.STRESS, axes={"users": 17}, dtype=dtype, contiguous=False),
    ]
