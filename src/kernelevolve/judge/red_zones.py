"""Red zones: what lies between the inputs in shared memory is known to the judge alone, and must stay as it is.

An arena has a zone before, between and after its tensors, to the byte: the padding up to the next aligned place is part
of it. The pattern is secret and differs from binding to binding. A write past an input changes it. A read past an input
finds values that are anything but harmless, and mostly shows in the output; what does not is for ``memory_check``.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import torch

from kernelevolve.workers.layout import Layout, TensorSlot, leaves

RED_ZONE = 512
"""Bytes on either side of a tensor at least; as long as the longest vector that a kernel is likely to slip by."""


@dataclass(frozen=True, slots=True)
class _Zone:
    """Bytes that belong to no tensor."""

    start: int
    stop: int
    before: str
    """Path of the tensor that ends where the zone starts; '' if there is none."""
    after: str
    """Path of the tensor that starts where the zone stops; '' if there is none."""


def layout_with_zones() -> Layout:
    """A layout that leaves room for red zones."""
    return Layout(RED_ZONE)


class RedZones:
    """The zones of one arena. ``memory`` is uint8 of one dimension and may live on the device."""

    def __init__(self, memory: torch.Tensor, slots: Any, size: int) -> None:
        self._memory = memory
        self._zones = tuple(_between(slots, size))
        # From the system and not from torch's generator, which a problem file may have seeded.
        longest = max((zone.stop - zone.start for zone in self._zones), default=0)
        secret = bytearray(secrets.token_bytes(longest))
        self._pattern = torch.frombuffer(secret, dtype=torch.uint8).to(memory.device) if longest else memory[:0]
        for zone in self._zones:
            memory[zone.start : zone.stop].copy_(self._pattern[: zone.stop - zone.start])

    def broken(self) -> str | None:
        """Where something has been written that belongs to no tensor, in words; None if nothing has."""
        for zone in self._zones:
            now, then = self._memory[zone.start : zone.stop], self._pattern[: zone.stop - zone.start]
            if torch.equal(now, then):
                continue
            changed = (now != then).nonzero()
            first, last = int(changed[0]), int(changed[-1])
            if zone.before and (first <= zone.stop - zone.start - 1 - last or not zone.after):
                return f"past the end of input {zone.before}, at byte {first} behind it"
            return f"before the start of input {zone.after}, at byte {zone.stop - zone.start - last} in front of it"
        return None


def _between(slots: Any, size: int) -> Iterator[_Zone]:
    """The zones of an arena of which ``size`` bytes are laid out."""
    places = sorted(
        (slot.offset, slot.offset + slot.extent, path)
        for path, slot in leaves(slots)
        if isinstance(slot, TensorSlot) and slot.extent
    )
    end, before = 0, ""
    for start, stop, path in places:
        if start > end:
            yield _Zone(end, start, before, path)
        end, before = stop, path
    if size > end:
        yield _Zone(end, size, before, "")
