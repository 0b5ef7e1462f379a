"""MAP-Elites with islands: the best program of every kind, in several populations that seldom meet.

The archive is that of Mouret and Clune 2015, the islands those of FunSearch (Romera-Paredes et al. 2024). A program's
kind is ``Node.niche``: which structural choices it is made of, not how long its text is. Half of the choices go to an
island's best program, because evolution that mostly explores does worse on kernels (PIKE, 2025).
"""

from __future__ import annotations

import random

from kernelevolve.search.elites import Elites
from kernelevolve.search.expanding import ExpandingPolicy
from kernelevolve.search.graph import SearchGraph
from kernelevolve.search.node import Node


class MapElites(ExpandingPolicy):
    """A child belongs to the island of its first parent; drafts are dealt out in turn.

    Every ``migrate_every`` nodes the best of each island also enters the next one.
    """

    name = "map-elites"

    def __init__(
        self,
        *,
        islands: int = 3,
        migrate_every: int = 40,
        exploit_probability: float = 0.5,
        combine_probability: float = 0.25,
        drafts: int = 6,
        debug_probability: float = 0.2,
        debug_depth: int = 3,
    ) -> None:
        super().__init__(drafts=drafts, debug_probability=debug_probability, debug_depth=debug_depth)
        self._islands = [Elites() for _ in range(islands)]
        self._migrate_every = migrate_every
        self._exploit_probability = exploit_probability
        self._combine_probability = combine_probability
        self._home: list[int] = []
        """Node -> island."""
        self._roots = 0

    def _choose(self, graph: SearchGraph, rng: random.Random) -> tuple[int, ...] | None:
        inhabited = [island for island in self._islands if len(island)]
        if not inhabited:
            return None
        island = rng.choice(inhabited)
        first = self._draw(island, rng)
        if len(island) > 1 and rng.random() < self._combine_probability:
            pair = (first.id, self._draw(island, rng).id)
            if pair[0] != pair[1] and not self._in_flight.is_spent(pair):
                return pair
        return (first.id,)

    def _draw(self, island: Elites, rng: random.Random) -> Node:
        node = island.top(1)[0] if rng.random() < self._exploit_probability else island.draw(rng)
        assert node is not None
        return node

    def _learn(self, node: Node, *, asked: bool) -> None:
        if node.parents:
            home = self._home[node.parents[0]]
        else:
            home = self._roots % len(self._islands)
            self._roots += 1
        self._home.append(home)
        if node.correct:
            self._settle_on(home, node)
        if len(self._home) % self._migrate_every == 0:
            self._migrate()

    def _migrate(self) -> None:
        for number, best in enumerate([island.best for island in self._islands]):
            if best is not None:
                self._settle_on((number + 1) % len(self._islands), best)

    def _settle_on(self, home: int, node: Node) -> None:
        island = self._islands[home]
        if island.offer(node.niche, node) and self._in_flight.is_spent((node.id,)):
            island.retire(node.id)

    def _retire(self, parents: tuple[int, ...]) -> None:
        if len(parents) == 1:
            for island in self._islands:
                island.retire(parents[0])


POLICY = MapElites
