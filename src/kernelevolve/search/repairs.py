"""Repairs: failed leaves that are worth mending, and how many failures in a row led to each."""

from __future__ import annotations

import random

from kernelevolve.judge.verdict import VerdictKind
from kernelevolve.search.node import Node
from kernelevolve.search.sum_tree import SumTree

_MENDABLE = frozenset(
    {
        VerdictKind.WRONG,
        VerdictKind.BUILD_ERROR,
        VerdictKind.RUNTIME_ERROR,
        VerdictKind.TIMEOUT,
        VerdictKind.OUT_OF_MEMORY,
    }
)
"""A cheat is not mended: what it would be without the cheat is some other program."""


class Repairs:
    """Failed nodes without children, at most ``depth`` failures below something that was correct (or a draft)."""

    def __init__(self, depth: int) -> None:
        self._depth = depth
        self._failures: dict[int, int] = {}
        """Failed node -> failures in a row, itself included."""
        self._leaves: list[int] = []
        self._position: dict[int, int] = {}
        self._open = SumTree()

    def __len__(self) -> int:
        """Number of leaves that may be mended now."""
        return int(self._open.total)

    def learn(self, node: Node) -> None:
        """Take a node in: it may need mending, and its parents have been tried."""
        for parent in node.parents:
            self.close(parent)
        if node.correct:
            return
        failures = 1 + max((self._failures.get(parent, 0) for parent in node.parents), default=0)
        self._failures[node.id] = failures
        if failures <= self._depth and node.kind in _MENDABLE:
            self._position[node.id] = len(self._leaves)
            self._leaves.append(node.id)
            self._open.append(1.0)

    def close(self, number: int) -> None:
        """This node is being mended, has been, or cannot be."""
        if number in self._position:
            self._open.set(self._position[number], 0.0)

    def reopen(self, number: int) -> None:
        """Mending it came to nothing, by no fault of its own."""
        if number in self._position:
            self._open.set(self._position[number], 1.0)

    def draw(self, rng: random.Random) -> int | None:
        """One of the open leaves, each as likely as any other; None if there is none."""
        position = self._open.draw(rng)
        return None if position is None else self._leaves[position]
