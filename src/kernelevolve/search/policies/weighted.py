"""Weighted: parents drawn in proportion to exp(fitness / temperature) / (1 + children).

Score-weighted resampling as in METR's KernelAgent and ShinkaEvolve's weighted parents: it needs no barrier, so it suits
many evaluations in flight.
"""

from __future__ import annotations

import math
import random
from collections.abc import Mapping, Sequence
from typing import Any

from kernelevolve.search.graph import SearchGraph
from kernelevolve.search.node import Node
from kernelevolve.search.policies.fenwick import FenwickTree
from kernelevolve.search.policies.in_flight import InFlight, state_of
from kernelevolve.search.policy import Expansion

_LARGEST_EXPONENT = 60.0


class Weighted:
    """Draws parents; failed nodes weigh nothing."""

    name = "weighted"

    def __init__(self, drafts: int = 4, temperature: float = 0.15, combine_probability: float = 0.1) -> None:
        self._drafts = drafts
        self._temperature = temperature
        self._combine_probability = combine_probability
        self._in_flight = InFlight()
        self._weights = FenwickTree()
        self._merit: list[float] = []
        self._children: list[int] = []

    def select(self, graph: SearchGraph, n: int, rng: random.Random) -> Sequence[Expansion]:
        return [self._one(graph, rng) for _ in range(n)]

    def _one(self, graph: SearchGraph, rng: random.Random) -> Expansion:
        if len(graph.roots) + self._in_flight.count(()) < self._drafts or self._weights.total <= 0:
            return self._in_flight.issue()
        first = self._draw(rng)
        if rng.random() < self._combine_probability:
            second = self._draw(rng)
            if graph[second].structure != graph[first].structure:
                return self._in_flight.issue((first, second))
        # One that is being expanded counts as having the child already, so that a burst spreads out.
        self._count_child(first)
        return self._in_flight.issue((first,))

    def _draw(self, rng: random.Random) -> int:
        return self._weights.find(rng.random() * self._weights.total)

    def _count_child(self, number: int) -> None:
        self._children[number] += 1
        self._weights.set(number, self._merit[number] / (1 + self._children[number]))

    def update(self, graph: SearchGraph, node: Node) -> None:
        asked = self._in_flight.settle(node)
        # A single parent of an expansion of ours was counted when it was selected.
        if not (asked and len(node.parents) == 1):
            for parent in dict.fromkeys(node.parents):
                self._count_child(parent)
        exponent = min(node.fitness / self._temperature, _LARGEST_EXPONENT) if node.correct else -math.inf
        merit = math.exp(exponent)
        self._merit.append(merit)
        self._children.append(0)
        self._weights.append(merit)

    def state_dict(self) -> Mapping[str, Any]:
        return state_of(self._in_flight)

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        self._in_flight.load_state_dict(state["in_flight"])
        for parents, count in state["in_flight"]:
            if len(parents) == 1:
                for _ in range(count):
                    self._count_child(parents[0])


POLICY = Weighted
