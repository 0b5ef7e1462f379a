"""What differs between kinds of device, on both sides of the boundary: shared memory, cache flush, clocks."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import torch

from kernelevolve.workers.messages import ArenaHandle, ClockName


class Arena(Protocol):
    """The judge's side of a block of memory that one worker shares."""

    handle: ArenaHandle
    memory: torch.Tensor
    """uint8, one dimension; on the device where the two sides share device memory, else on the host."""

    @property
    def descriptors(self) -> tuple[int, ...]:
        """File descriptors that must travel with the request that shares it."""
        ...

    def settle(self) -> None:
        """Return when everything written to ``memory`` has arrived there."""
        ...

    def close(self) -> None:
        """Free it on this side."""
        ...


class ArenaMaker(Protocol):
    """Makes arenas for workers on one kind of device."""

    torch_device: torch.device
    methods: dict[ClockName, str]
    """The clocks that a worker on this device has, and for each how the time is taken, in words."""

    def make(self, size: int) -> Arena:
        """A new block of ``size`` bytes; every byte is 0xFF, which reads as NaN in every floating dtype."""
        ...

    def fall_back(self) -> bool:
        """Called when a worker could not map an arena: use another way from now on, or False if there is none."""
        ...


@dataclass(frozen=True, slots=True)
class Timing:
    """What a worker's clocks say about a call or a series, in seconds, and what each call returned."""

    wall: float
    device: float | None
    results: list[Any]


class WorkerDevice(Protocol):
    """The worker's side."""

    torch_device: torch.device

    def map(self, handle: ArenaHandle, descriptors: list[int]) -> torch.Tensor:
        """The arena as device memory (uint8, one dimension), at an address that stays."""
        ...

    def unmap(self, name: str) -> None:
        """Forget an arena."""
        ...

    def take_over(self, name: str) -> None:
        """Bring what the judge wrote to the arena to the device (nothing to do where memory is shared)."""
        ...

    def hand_back(self, name: str) -> None:
        """Bring what was written on the device to where the judge reads it, and wait for it."""
        ...

    def flush(self) -> None:
        """Evict the last-level cache."""
        ...

    def timed(self, calls: Sequence[Callable[[], Any]], clock: ClockName, head_start: float | None) -> Timing:
        """Make the calls, wait until all work has ended, and say how long it took.

        ``head_start`` is for how many seconds the device is kept busy while the host launches ahead.
        """
        ...
