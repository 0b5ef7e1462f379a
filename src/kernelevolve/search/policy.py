"""Selection policy: which node next. Pure, deterministic from its generator, no I/O."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from kernelevolve.search.graph import SearchGraph
from kernelevolve.search.node import Node


@dataclass(frozen=True, slots=True)
class Expansion:
    """A request to make one candidate: from which parents, and by what kind of operator."""

    parents: tuple[int, ...]
    """Node ids; empty for a fresh draft, one to change, two to combine."""
    repair: bool = False
    """True if the parent failed and the aim is to mend it."""


class Policy(Protocol):
    """One selection policy. The module ``search/policies/<name>.py`` holds ``POLICY``, a class that makes these; all
    its settings are keyword arguments with defaults.

    ``select`` is called whenever the engine can start work, possibly while earlier expansions are still being judged.
    Every expansion is answered once: by ``update`` with a node of just its parents, or by ``withdraw``. Given the same
    calls and the same generator state, a policy gives the same answers.

    To continue a run, a new policy gets ``update`` for every stored node, in order, then ``load_state_dict``. What was
    in flight when the earlier process ended is not restored: nobody would answer it.
    """

    name: str

    def select(self, graph: SearchGraph, n: int, rng: random.Random) -> Sequence[Expansion]:
        """Up to ``n`` expansions; none if the policy sees nothing (more) to expand."""
        ...

    def update(self, graph: SearchGraph, node: Node) -> None:
        """Learn of an inserted node; called once for every node, in the order of insertion."""
        ...

    def withdraw(self, expansion: Expansion, *, spent: bool) -> None:
        """An expansion gives no node. ``spent``: no operator has anything new from its parents; do not ask again."""
        ...

    def state_dict(self) -> Mapping[str, Any]:
        """JSON-serialisable state that the nodes alone do not tell (spent parents, cursors)."""
        ...

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restore what ``state_dict`` gave."""
        ...
