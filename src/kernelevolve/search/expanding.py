"""ExpandingPolicy: what every policy but the control has in common.

A few independent drafts come first. From then on failed leaves are mended now and then, and for the rest the policy
chooses parents. That choice is all that a policy has to add.
"""

from __future__ import annotations

import random
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any

from kernelevolve.search.graph import SearchGraph
from kernelevolve.search.in_flight import InFlight
from kernelevolve.search.node import Node
from kernelevolve.search.policy import Expansion
from kernelevolve.search.repairs import Repairs


class ExpandingPolicy(ABC):
    """Drafts, repairs, and the parents that the policy itself chooses."""

    name: str

    def __init__(self, *, drafts: int, debug_probability: float, debug_depth: int) -> None:
        self._drafts = drafts
        self._debug_probability = debug_probability
        self._in_flight = InFlight()
        self._repairs = Repairs(debug_depth)

    def select(self, graph: SearchGraph, n: int, rng: random.Random) -> Sequence[Expansion]:
        """Up to ``n`` expansions; none if there is nothing left that the policy would expand."""
        found: list[Expansion] = []
        while len(found) < n and (expansion := self._next(graph, rng)) is not None:
            found.append(expansion)
        return found

    def _next(self, graph: SearchGraph, rng: random.Random) -> Expansion | None:
        may_draft = not self._in_flight.is_spent(())
        if may_draft and len(graph.roots) + self._in_flight.count(()) < self._drafts:
            return self._issue(())
        if self._repairs and rng.random() < self._debug_probability:
            return self._repair(rng)
        parents = self._choose(graph, rng)
        if parents is not None:
            return self._issue(parents)
        if self._repairs:
            return self._repair(rng)
        return self._issue(()) if may_draft else None

    def _repair(self, rng: random.Random) -> Expansion:
        leaf = self._repairs.draw(rng)
        assert leaf is not None
        self._repairs.close(leaf)
        self._issued((leaf,))
        return self._in_flight.issue((leaf,), repair=True)

    def _issue(self, parents: tuple[int, ...]) -> Expansion:
        self._issued(parents)
        return self._in_flight.issue(parents)

    def update(self, graph: SearchGraph, node: Node) -> None:
        """Learn of an inserted node, asked for or not."""
        asked = self._in_flight.settle(node)
        self._repairs.learn(node)
        self._learn(node, asked=asked)

    def withdraw(self, expansion: Expansion, *, spent: bool) -> None:
        """An expansion came to nothing; ``spent``: its parents have nothing new to give."""
        if self._in_flight.withdraw(expansion, spent=spent):
            self._withdrawn(expansion.parents)
        if spent:
            self._retire(expansion.parents)
        elif expansion.repair:
            self._repairs.reopen(expansion.parents[0])

    def state_dict(self) -> Mapping[str, Any]:
        """What the nodes alone do not tell, as JSON."""
        return self._in_flight.state_dict()

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restore what ``state_dict`` gave, after ``update`` was called for every node."""
        for parents in self._in_flight.load_state_dict(state):
            self._retire(parents)
            if len(parents) == 1:
                self._repairs.close(parents[0])

    @abstractmethod
    def _choose(self, graph: SearchGraph, rng: random.Random) -> tuple[int, ...] | None:
        """Parents to expand: one to change, two to combine; None if there are none."""

    @abstractmethod
    def _learn(self, node: Node, *, asked: bool) -> None:
        """A node was inserted; ``asked`` if it answers an expansion that this policy issued."""

    @abstractmethod
    def _retire(self, parents: tuple[int, ...]) -> None:
        """These parents have nothing new to give; ``()`` stands for drafts."""

    def _issued(self, parents: tuple[int, ...]) -> None:  # noqa: B027  (most policies need not know)
        """An expansion of these parents goes out."""

    def _withdrawn(self, parents: tuple[int, ...]) -> None:  # noqa: B027
        """An expansion of these parents that went out has come to nothing."""
