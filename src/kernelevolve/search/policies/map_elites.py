"""MAP-Elites with islands: the best program of every kind, in several populations that seldom meet.

Mouret and Clune 2015 for the archive; islands as in FunSearch and AlphaEvolve. A program's kind is ``Node.niche``: which
structural choices it is made of, not how long its text is.
"""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from typing import Any

from kernelevolve.search.graph import SearchGraph
from kernelevolve.search.node import Node
from kernelevolve.search.policies.in_flight import InFlight, state_of
from kernelevolve.search.policy import Expansion


class MapElites:
    """Islands take turns; within one, elites are drawn by rank."""

    name = "map-elites"

    def __init__(
        self, islands: int = 3, drafts: int = 6, migrate_every: int = 40, combine_probability: float = 0.25
    ) -> None:
        self._islands: list[dict[str, Node]] = [{} for _ in range(islands)]
        self._drafts = drafts
        self._migrate_every = migrate_every
        self._combine_probability = combine_probability
        self._in_flight = InFlight()
        self._home: list[int] = []
        """Node -> island."""
        self._turn = 0

    def select(self, graph: SearchGraph, n: int, rng: random.Random) -> Sequence[Expansion]:
        return [self._one(graph, rng) for _ in range(n)]

    def _one(self, graph: SearchGraph, rng: random.Random) -> Expansion:
        self._turn += 1
        island = self._islands[self._turn % len(self._islands)]
        if not island or len(graph.roots) + self._in_flight.count(()) < self._drafts:
            return self._in_flight.issue()
        elites = sorted(island.values(), key=lambda x: (-x.fitness, x.id))
        first = self._draw(elites, rng)
        if len(elites) > 1 and rng.random() < self._combine_probability:
            second = self._draw([e for e in elites if e.id != first.id], rng)
            return self._in_flight.issue((first.id, second.id))
        return self._in_flight.issue((first.id,))

    @staticmethod
    def _draw(elites: Sequence[Node], rng: random.Random) -> Node:
        """By rank: the best is twice as likely as the second, and so on down."""
        for elite in elites[:-1]:
            if rng.random() < 0.5:
                return elite
        return elites[-1]

    def update(self, graph: SearchGraph, node: Node) -> None:
        self._in_flight.settle(node)
        home = self._home[node.parents[0]] if node.parents else len(graph.roots) % len(self._islands)
        self._home.append(home)
        self._keep(home, node)
        if (node.id + 1) % self._migrate_every == 0:
            self._migrate()

    def _keep(self, home: int, node: Node) -> None:
        held = self._islands[home].get(node.niche)
        if node.correct and (held is None or node.fitness > held.fitness):
            self._islands[home][node.niche] = node

    def _migrate(self) -> None:
        """The best of every island also lives on the next one from now on."""
        best = [max(i.values(), key=lambda x: x.fitness, default=None) for i in self._islands]
        for number, node in enumerate(best):
            if node is not None:
                self._keep((number + 1) % len(self._islands), node)

    def state_dict(self) -> Mapping[str, Any]:
        return state_of(self._in_flight, turn=self._turn)

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        self._in_flight.load_state_dict(state["in_flight"])
        self._turn = int(state["turn"])


POLICY = MapElites
