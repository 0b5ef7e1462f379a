"""Fenwick tree: weights that change one at a time, and draws in proportion to them, both in O(log n) (Fenwick 1994)."""

from __future__ import annotations


class FenwickTree:
    """A growing list of non-negative weights."""

    def __init__(self) -> None:
        self._sums = [0.0]
        self._weights: list[float] = []

    def __len__(self) -> int:
        return len(self._weights)

    def append(self, weight: float) -> None:
        """Add a weight at the end."""
        self._weights.append(weight)
        index = len(self._weights)
        total, step = weight, 1
        while step < (index & -index):
            total += self._sums[index - step]
            step <<= 1
        self._sums.append(total)

    def set(self, position: int, weight: float) -> None:
        """Change the weight at a position (from 0)."""
        change = weight - self._weights[position]
        self._weights[position] = weight
        index = position + 1
        while index < len(self._sums):
            self._sums[index] += change
            index += index & -index

    def get(self, position: int) -> float:
        """The weight at a position."""
        return self._weights[position]

    @property
    def total(self) -> float:
        """Sum of all weights."""
        total, index = 0.0, len(self._weights)
        while index:
            total += self._sums[index]
            index -= index & -index
        return total

    def find(self, mass: float) -> int:
        """The position at which the running sum passes ``mass`` (0 <= mass < total)."""
        index, step = 0, 1 << max(0, len(self._weights).bit_length() - 1)
        while step:
            following = index + step
            if following < len(self._sums) and self._sums[following] <= mass:
                index = following
                mass -= self._sums[following]
            step >>= 1
        return min(index, len(self._weights) - 1)
