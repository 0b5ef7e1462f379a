"""Weighted: parents drawn in proportion to exp(fitness / temperature) / (1 + children).

Fitness is the log of the speed-up, so this is speed-up to the power 1 / temperature. Score-weighted resampling is what
METR's kernel agent used over 300 attempts; the denominator is the offspring novelty of ShinkaEvolve (Lange et al.
2025). It has no rounds, so it suits many evaluations in flight.
"""

from __future__ import annotations

import math
import random

from kernelevolve.search.expanding import ExpandingPolicy
from kernelevolve.search.graph import SearchGraph
from kernelevolve.search.node import Node
from kernelevolve.search.sum_tree import SumTree

_LARGEST_EXPONENT = 300.0
"""A sum of 100,000 weights of e^300 is still far from the largest double."""


class Weighted(ExpandingPolicy):
    """Draws parents. A failed or spent node weighs nothing; one that is being expanded counts as having the child."""

    name = "weighted"

    def __init__(
        self,
        *,
        temperature: float = 0.15,
        drafts: int = 4,
        debug_probability: float = 0.2,
        debug_depth: int = 3,
        combine_probability: float = 0.1,
    ) -> None:
        super().__init__(drafts=drafts, debug_probability=debug_probability, debug_depth=debug_depth)
        self._temperature = temperature
        self._combine_probability = combine_probability
        self._weights = SumTree()
        self._merits: list[float] = []
        self._children: list[int] = []

    def _choose(self, graph: SearchGraph, rng: random.Random) -> tuple[int, ...] | None:
        first = self._weights.draw(rng)
        if first is None:
            return None
        if rng.random() < self._combine_probability:
            second = self._weights.draw(rng)
            if second is not None and graph[second].structure != graph[first].structure:
                pair = (first, second)
                if not self._in_flight.is_spent(pair):
                    return pair
        return (first,)

    def _learn(self, node: Node, *, asked: bool) -> None:
        if not asked:  # else its parents were counted when it was issued
            self._count(node.parents, 1)
        exponent = max(-_LARGEST_EXPONENT, min(node.fitness / self._temperature, _LARGEST_EXPONENT))
        self._merits.append(math.exp(exponent) if node.correct else 0.0)
        self._children.append(0)
        self._weights.append(self._merits[node.id])

    def _retire(self, parents: tuple[int, ...]) -> None:
        if len(parents) == 1:
            self._merits[parents[0]] = 0.0
            self._weights.set(parents[0], 0.0)

    def _issued(self, parents: tuple[int, ...]) -> None:
        self._count(parents, 1)

    def _withdrawn(self, parents: tuple[int, ...]) -> None:
        self._count(parents, -1)

    def _count(self, parents: tuple[int, ...], change: int) -> None:
        for parent in parents:
            self._children[parent] += change
            self._weights.set(parent, self._merits[parent] / (1 + self._children[parent]))


POLICY = Weighted
