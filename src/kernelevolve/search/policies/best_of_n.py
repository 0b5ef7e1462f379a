"""Best of n: independent drafts and nothing else. The control that every other policy has to beat."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from typing import Any

from kernelevolve.search.graph import SearchGraph
from kernelevolve.search.in_flight import InFlight
from kernelevolve.search.node import Node
from kernelevolve.search.policy import Expansion


class BestOfN:
    """Always a fresh draft."""

    name = "best-of-n"

    def __init__(self) -> None:
        self._in_flight = InFlight()

    def select(self, graph: SearchGraph, n: int, rng: random.Random) -> Sequence[Expansion]:
        """``n`` drafts; none once drafting has nothing new."""
        return [] if self._in_flight.is_spent(()) else [self._in_flight.issue() for _ in range(n)]

    def update(self, graph: SearchGraph, node: Node) -> None:
        """Nothing is learnt from a result."""
        self._in_flight.settle(node)

    def withdraw(self, expansion: Expansion, *, spent: bool) -> None:
        """A draft came to nothing."""
        self._in_flight.withdraw(expansion, spent=spent)

    def state_dict(self) -> Mapping[str, Any]:
        """Whether drafting is spent."""
        return self._in_flight.state_dict()

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restore what ``state_dict`` gave."""
        self._in_flight.load_state_dict(state)


POLICY = BestOfN
