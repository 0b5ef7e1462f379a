"""Greedy: a few drafts, mend what failed, improve the best.

The tree search of AIDE (Jiang et al. 2025, "AI-Driven Exploration in the Space of Code"), with crossover of the two
best programs added. Under about 40 evaluations no published policy beats it by more than noise once operators and
feedback are the same (Toledo et al. 2025, "AI Research Agents for Machine Learning").
"""

from __future__ import annotations

import random

from kernelevolve.search.elites import Elites
from kernelevolve.search.expanding import ExpandingPolicy
from kernelevolve.search.graph import SearchGraph
from kernelevolve.search.node import Node


class Greedy(ExpandingPolicy):
    """Expands the fittest node until it has nothing more to give, then the fittest of another structure."""

    name = "greedy"

    def __init__(
        self,
        *,
        drafts: int = 3,
        debug_probability: float = 0.3,
        debug_depth: int = 3,
        combine_probability: float = 0.15,
    ) -> None:
        super().__init__(drafts=drafts, debug_probability=debug_probability, debug_depth=debug_depth)
        self._combine_probability = combine_probability
        self._elites = Elites()

    def _choose(self, graph: SearchGraph, rng: random.Random) -> tuple[int, ...] | None:
        best = self._elites.top(2)
        if not best:
            return None
        if len(best) == 2 and rng.random() < self._combine_probability:
            pair = (best[0].id, best[1].id)
            if not self._in_flight.is_spent(pair):
                return pair
        return (best[0].id,)

    def _learn(self, node: Node, *, asked: bool) -> None:
        if node.correct:
            self._elites.offer(node.structure, node)

    def _retire(self, parents: tuple[int, ...]) -> None:
        if len(parents) == 1:
            self._elites.retire(parents[0])


POLICY = Greedy
