"""In flight: expansions that a policy has issued and not yet seen the result of."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any

from kernelevolve.search.node import Node
from kernelevolve.search.policy import Expansion


class InFlight:
    """Counts issued expansions by their parents. A node clears one expansion of its own parents."""

    def __init__(self) -> None:
        self._waiting: Counter[tuple[int, ...]] = Counter()

    def issue(self, parents: tuple[int, ...] = ()) -> Expansion:
        """An expansion from these parents, remembered until its node arrives."""
        self._waiting[parents] += 1
        return Expansion(parents)

    def settle(self, node: Node) -> bool:
        """A node arrived; True if it was asked for."""
        if self._waiting[node.parents] <= 0:
            return False
        self._waiting[node.parents] -= 1
        if not self._waiting[node.parents]:
            del self._waiting[node.parents]
        return True

    def count(self, parents: tuple[int, ...]) -> int:
        """How many expansions from just these parents are out."""
        return self._waiting.get(parents, 0)

    def state_dict(self) -> list[tuple[list[int], int]]:
        """As JSON. What was in flight when a process died is never answered, so loading starts from nothing."""
        return [(list(parents), count) for parents, count in self._waiting.items()]

    def load_state_dict(self, state: Any) -> None:
        """Continue with the same expansions out: for a policy whose engine lives on."""
        self._waiting = Counter({tuple(parents): count for parents, count in state})


def state_of(in_flight: InFlight, **more: Any) -> Mapping[str, Any]:
    """A policy's state: what is out, and what the policy adds."""
    return {"in_flight": in_flight.state_dict(), **more}
