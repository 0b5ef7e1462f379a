"""Best of n: independent drafts and nothing else. The control against which every other policy has to show its worth."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from typing import Any

from kernelevolve.search.graph import SearchGraph
from kernelevolve.search.node import Node
from kernelevolve.search.policies.in_flight import InFlight, state_of
from kernelevolve.search.policy import Expansion


class BestOfN:
    """Always a fresh draft."""

    name = "best-of-n"

    def __init__(self) -> None:
        self._in_flight = InFlight()

    def select(self, graph: SearchGraph, n: int, rng: random.Random) -> Sequence[Expansion]:
        return [self._in_flight.issue() for _ in range(n)]

    def update(self, graph: SearchGraph, node: Node) -> None:
        self._in_flight.settle(node)

    def state_dict(self) -> Mapping[str, Any]:
        return state_of(self._in_flight)

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        self._in_flight.load_state_dict(state["in_flight"])


POLICY = BestOfN
