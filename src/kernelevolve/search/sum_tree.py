"""Sum tree: weights that change one at a time, and draws in proportion to them, both in O(log n).

A binary tree in an array: leaves are the weights, inner nodes the sums of their two children. A Fenwick tree would need
half the memory, but it adds differences to its sums. They drift by rounding, and they depend on the order of the
changes, so that a policy rebuilt from a stored graph would draw differently from the one that was killed.
"""

from __future__ import annotations

import random
from array import array


class SumTree:
    """A growing list of non-negative weights, numbered from 0."""

    def __init__(self) -> None:
        self._room = 1
        self._count = 0
        self._sums = array("d", (0.0, 0.0))

    def __len__(self) -> int:
        return self._count

    def __getitem__(self, position: int) -> float:
        return self._sums[self._room + position]

    @property
    def total(self) -> float:
        """Sum of all weights."""
        return self._sums[1]

    def append(self, weight: float) -> None:
        """Add a weight at the end."""
        if self._count == self._room:
            self._grow()
        self._count += 1
        self.set(self._count - 1, weight)

    def set(self, position: int, weight: float) -> None:
        """Change the weight at a position."""
        sums = self._sums
        at = self._room + position
        sums[at] = weight
        at >>= 1
        while at:
            sums[at] = sums[2 * at] + sums[2 * at + 1]
            at >>= 1

    def draw(self, rng: random.Random) -> int | None:
        """A position, drawn in proportion to its weight; None if all weights are 0."""
        sums = self._sums
        if not sums[1] > 0:
            return None
        mass, at = rng.random() * sums[1], 1
        while at < self._room:
            at *= 2
            # Never into a branch without weight, however the subtraction was rounded.
            if (mass >= sums[at] and sums[at + 1] > 0) or not sums[at] > 0:
                mass -= sums[at]
                at += 1
        return at - self._room

    def _grow(self) -> None:
        """Double the room; its cost is spread over as many appends."""
        weights = self._sums[self._room :]
        self._room *= 2
        self._sums = array("d", bytes(8 * self._room)) + weights + array("d", bytes(8 * (self._room - len(weights))))
        for at in range(self._room - 1, 0, -1):
            self._sums[at] = self._sums[2 * at] + self._sums[2 * at + 1]
