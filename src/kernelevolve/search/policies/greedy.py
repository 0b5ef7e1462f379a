"""Greedy: a few drafts, mend what failed, improve the best.

The tree search of AIDE (Jiang et al. 2025), with crossover of the two best programs added. Under about 40 evaluations
nothing published beats it by more than noise, once operators and feedback are the same.
"""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from typing import Any

from kernelevolve.search.graph import SearchGraph
from kernelevolve.search.node import Node
from kernelevolve.search.policies.in_flight import InFlight, state_of
from kernelevolve.search.policy import Expansion


class Greedy:
    """Exploits one incumbent."""

    name = "greedy"

    def __init__(
        self, drafts: int = 3, debug_probability: float = 0.3, debug_depth: int = 3, combine_probability: float = 0.15
    ) -> None:
        self._drafts = drafts
        self._debug_probability = debug_probability
        self._debug_depth = debug_depth
        self._combine_probability = combine_probability
        self._in_flight = InFlight()
        self._failed_depth: dict[int, int] = {}
        """Failed leaf -> how many failures in a row lead to it."""
        self._best: list[Node] = []
        """The best node, and the best of another structure."""

    def select(self, graph: SearchGraph, n: int, rng: random.Random) -> Sequence[Expansion]:
        return [self._one(graph, rng) for _ in range(n)]

    def _one(self, graph: SearchGraph, rng: random.Random) -> Expansion:
        if len(graph.roots) + self._in_flight.count(()) < self._drafts:
            return self._in_flight.issue()
        if self._failed_depth and rng.random() < self._debug_probability:
            leaf = next(reversed(self._failed_depth))
            self._in_flight.issue((leaf,))
            return Expansion((leaf,), repair=True)
        if not self._best:
            return self._in_flight.issue()
        if len(self._best) > 1 and rng.random() < self._combine_probability:
            return self._in_flight.issue((self._best[0].id, self._best[1].id))
        return self._in_flight.issue((self._best[0].id,))

    def update(self, graph: SearchGraph, node: Node) -> None:
        self._in_flight.settle(node)
        before = max((self._failed_depth.pop(parent, 0) for parent in node.parents), default=0)
        if not node.correct:
            if before + 1 <= self._debug_depth:
                self._failed_depth[node.id] = before + 1
            return
        ranked = sorted([*self._best, node], key=lambda x: (-x.fitness, x.id))
        self._best = list({x.structure: x for x in reversed(ranked)}.values())[::-1][:2]
        self._best.sort(key=lambda x: (-x.fitness, x.id))

    def state_dict(self) -> Mapping[str, Any]:
        return state_of(self._in_flight)

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        self._in_flight.load_state_dict(state["in_flight"])


POLICY = Greedy
