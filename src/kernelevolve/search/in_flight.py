"""In flight: expansions that a policy has issued and not yet seen the result of, and parents that are spent."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kernelevolve.search.node import Node
from kernelevolve.search.policy import Expansion


class InFlight:
    """Counts issued expansions by their parents. A node answers one expansion of its own parents.

    What is in flight belongs to the process that makes it: it is no part of the state that a later process restores.
    """

    def __init__(self) -> None:
        self._waiting: dict[tuple[int, ...], int] = {}
        self._spent: set[tuple[int, ...]] = set()

    def issue(self, parents: tuple[int, ...] = (), *, repair: bool = False) -> Expansion:
        """An expansion from these parents, remembered until it is answered."""
        self._waiting[parents] = self._waiting.get(parents, 0) + 1
        return Expansion(parents, repair)

    def settle(self, node: Node) -> bool:
        """A node arrived; True if it was asked for."""
        return self._answer(node.parents)

    def withdraw(self, expansion: Expansion, *, spent: bool) -> bool:
        """An expansion came to nothing; True if it was asked for. ``spent``: nothing will ever come of its parents."""
        if spent:
            self._spent.add(expansion.parents)
        return self._answer(expansion.parents)

    def _answer(self, parents: tuple[int, ...]) -> bool:
        waiting = self._waiting.get(parents, 0)
        if waiting > 1:
            self._waiting[parents] = waiting - 1
        elif waiting:
            del self._waiting[parents]
        return waiting > 0

    def count(self, parents: tuple[int, ...]) -> int:
        """How many expansions from just these parents are out."""
        return self._waiting.get(parents, 0)

    def is_spent(self, parents: tuple[int, ...]) -> bool:
        """True if these parents have nothing more to give."""
        return parents in self._spent

    def state_dict(self) -> dict[str, Any]:
        """What the graph does not tell, as JSON."""
        return {"spent": sorted(map(list, self._spent))}

    def load_state_dict(self, state: Mapping[str, Any]) -> list[tuple[int, ...]]:
        """Restore what ``state_dict`` gave, with nothing in flight; the spent parents."""
        self._waiting = {}
        self._spent = {tuple(map(int, parents)) for parents in state["spent"]}
        return sorted(self._spent)
