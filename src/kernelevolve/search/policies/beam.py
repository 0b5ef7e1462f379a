"""Beam: the best few programs of different structure, each expanded a few times a round.

Width 4 gets most of what width 8 gets for half the price, and width 1 is already good (Autocomp, Hong et al. 2025, over
six kernels). Distinct structures matter: a beam otherwise fills up with copies of one program.
"""

from __future__ import annotations

import random
from collections.abc import Mapping
from typing import Any

from kernelevolve.search.elites import Elites
from kernelevolve.search.expanding import ExpandingPolicy
from kernelevolve.search.graph import SearchGraph
from kernelevolve.search.node import Node


class Beam(ExpandingPolicy):
    """``width`` programs, ``expansions`` of each a round.

    There is no barrier: who enters the beam in the middle of a round has its share of it at once, and the round ends
    when every member has had its share, whatever is still in flight.
    """

    name = "beam"

    def __init__(
        self,
        *,
        width: int = 4,
        expansions: int = 2,
        drafts: int = 4,
        debug_probability: float = 0.2,
        debug_depth: int = 3,
        combine_probability: float = 0.15,
    ) -> None:
        super().__init__(drafts=drafts, debug_probability=debug_probability, debug_depth=debug_depth)
        self._width = width
        self._expansions = expansions
        self._combine_probability = combine_probability
        self._elites = Elites()
        self._used: dict[int, int] = {}
        """Member -> expansions that it has had in this round."""

    def _choose(self, graph: SearchGraph, rng: random.Random) -> tuple[int, ...] | None:
        members = self._elites.top(self._width)
        if not members:
            return None
        if len(members) > 1 and rng.random() < self._combine_probability:
            first, second = sorted(rng.sample(range(len(members)), 2))
            pair = (members[first].id, members[second].id)
            if not self._in_flight.is_spent(pair):
                return pair
        if all(self._used.get(member.id, 0) >= self._expansions for member in members):
            self._used = {}
        # Members are in the order of their fitness, so that the fittest of the least expanded ones comes first.
        chosen = min(members, key=lambda member: self._used.get(member.id, 0))
        self._used[chosen.id] = self._used.get(chosen.id, 0) + 1
        return (chosen.id,)

    def _learn(self, node: Node, *, asked: bool) -> None:
        if node.correct:
            self._elites.offer(node.structure, node)

    def _retire(self, parents: tuple[int, ...]) -> None:
        if len(parents) == 1:
            self._elites.retire(parents[0])

    def state_dict(self) -> Mapping[str, Any]:
        """Spent parents, and how far the round is."""
        return {**super().state_dict(), "used": sorted(self._used.items())}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restore what ``state_dict`` gave."""
        super().load_state_dict(state)
        self._used = {int(number): int(used) for number, used in state["used"]}


POLICY = Beam
