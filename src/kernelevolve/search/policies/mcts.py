"""MCTS: UCT (Kocsis and Szepesvári 2006) over the tree of programs, with progressive widening (Coulom 2007).

A node's value is the best fitness below it, not the mean: a search for one fast kernel does not care how bad the other
children are. Values are scaled by the range seen so far. Expansions in flight count as visits (virtual loss), so that
several at once go to different places.
"""

from __future__ import annotations

import math
import random
from collections.abc import Mapping, Sequence
from typing import Any

from kernelevolve.search.graph import SearchGraph
from kernelevolve.search.node import Node
from kernelevolve.search.policies.in_flight import InFlight, state_of
from kernelevolve.search.policy import Expansion

_ROOT = -1


class Mcts:
    """Walks down from a virtual root whose children are the drafts."""

    name = "mcts"

    def __init__(self, exploration: float = 0.5, widening: float = 1.5, exponent: float = 0.5, drafts: int = 3) -> None:
        self._exploration = exploration
        self._widening = widening
        self._exponent = exponent
        self._drafts = drafts
        self._in_flight = InFlight()
        self._visits: dict[int, int] = {_ROOT: 0}
        self._value: dict[int, float] = {_ROOT: -math.inf}
        self._above: dict[int, int] = {}
        """Node -> the first of its parents, or the virtual root."""
        self._low, self._high = math.inf, -math.inf

    def select(self, graph: SearchGraph, n: int, rng: random.Random) -> Sequence[Expansion]:
        return [self._one(graph, rng) for _ in range(n)]

    def _one(self, graph: SearchGraph, rng: random.Random) -> Expansion:
        at, path = _ROOT, [_ROOT]
        while True:
            children = graph.roots if at == _ROOT else graph.children(at)
            live = [c for c in children if math.isfinite(self._value[c])]
            waiting = self._in_flight.count(() if at == _ROOT else (at,))
            if not live or len(children) + waiting < self._room(at):
                break
            at = max(live, key=lambda c: (self._score(c, path[-1]), -c))
            path.append(at)
        for number in path:
            self._visits[number] += 1
        return self._in_flight.issue(() if at == _ROOT else (at,))

    def _room(self, number: int) -> float:
        """How many children a node may have at its present number of visits."""
        room = math.ceil(self._widening * math.pow(1 + self._visits[number], self._exponent))
        return max(room, self._drafts) if number == _ROOT else room

    def _score(self, child: int, parent: int) -> float:
        spread = self._high - self._low
        scaled = (self._value[child] - self._low) / spread if spread > 0 else 0.5
        bonus = math.sqrt(math.log(1 + self._visits[parent]) / (1 + self._visits[child]))
        return scaled + self._exploration * bonus

    def update(self, graph: SearchGraph, node: Node) -> None:
        asked = self._in_flight.settle(node)
        self._visits[node.id], self._value[node.id] = 0, node.fitness if node.correct else -math.inf
        self._above[node.id] = node.parents[0] if node.parents else _ROOT
        at: int | None = self._above[node.id]
        if node.correct:
            self._low, self._high = min(self._low, node.fitness), max(self._high, node.fitness)
        better = node.correct
        while at is not None:
            if not asked:
                self._visits[at] += 1
            better = better and node.fitness > self._value[at]
            if better:
                self._value[at] = node.fitness
            elif asked:
                break  # Visits were counted on the way down, and no ancestor can gain either.
            at = None if at == _ROOT else self._above[at]

    def state_dict(self) -> Mapping[str, Any]:
        return state_of(self._in_flight)

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Visits follow from the nodes, but for those that are out: each counts along its way down."""
        self._in_flight.load_state_dict(state["in_flight"])
        for parents, count in state["in_flight"]:
            at: int | None = parents[0] if parents else _ROOT
            while at is not None:
                self._visits[at] = self._visits.get(at, 0) + count
                at = None if at == _ROOT else self._above.get(at, _ROOT)


POLICY = Mcts
