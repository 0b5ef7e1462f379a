"""Beam: the best few programs of different structure, expanded in turn.

Width 4 gets most of what width 8 gets for half the price (Autocomp's study over six kernels); distinct structures
matter, because beams otherwise fill up with copies of one program (KernelAgent).
"""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from typing import Any

from kernelevolve.search.graph import SearchGraph
from kernelevolve.search.node import Node
from kernelevolve.search.policies.in_flight import InFlight, state_of
from kernelevolve.search.policy import Expansion


class Beam:
    """Keeps ``width`` programs; the least expanded of them is next, the fitter one of equals."""

    name = "beam"

    def __init__(self, width: int = 4, drafts: int = 4, combine_every: int = 8) -> None:
        self._width = width
        self._drafts = drafts
        self._combine_every = combine_every
        self._in_flight = InFlight()
        self._members: dict[str, Node] = {}
        self._expansions: dict[str, int] = {}
        self._turn = 0

    def select(self, graph: SearchGraph, n: int, rng: random.Random) -> Sequence[Expansion]:
        return [self._one(graph, rng) for _ in range(n)]

    def _one(self, graph: SearchGraph, rng: random.Random) -> Expansion:
        if not self._members or len(graph.roots) + self._in_flight.count(()) < self._drafts:
            return self._in_flight.issue()
        self._turn += 1
        members = sorted(self._members.values(), key=lambda x: (-x.fitness, x.id))
        if len(members) > 1 and self._turn % self._combine_every == 0:
            first, second = rng.sample(members, 2)
            return self._in_flight.issue((first.id, second.id))
        chosen = min(members, key=lambda x: self._expansions.get(x.structure, 0))
        self._expansions[chosen.structure] = self._expansions.get(chosen.structure, 0) + 1
        return self._in_flight.issue((chosen.id,))

    def update(self, graph: SearchGraph, node: Node) -> None:
        self._in_flight.settle(node)
        if not node.correct:
            return
        held = self._members.get(node.structure)
        if held is None or node.fitness > held.fitness:
            self._members[node.structure] = node
        if len(self._members) > self._width:
            worst = min(self._members.values(), key=lambda x: (x.fitness, -x.id))
            del self._members[worst.structure]
            self._expansions.pop(worst.structure, None)

    def state_dict(self) -> Mapping[str, Any]:
        return state_of(self._in_flight, turn=self._turn, expansions=dict(self._expansions))

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        self._in_flight.load_state_dict(state["in_flight"])
        self._turn = int(state["turn"])
        self._expansions = {str(k): int(v) for k, v in state["expansions"].items()}


POLICY = Beam
