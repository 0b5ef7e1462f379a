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
    """One selection policy. The module ``search/policies/<name>.py`` holds ``POLICY``, a class that makes these.

    ``select`` is called whenever the engine can start work, possibly while earlier expansions are still being judged;
    ``update`` is called once for every node, after it was inserted, in order of insertion. Given the same calls and
    the same generator state, a policy gives the same answers. Rebuilding one by ``update`` over a stored graph, then
    ``load_state_dict``, continues a run.
    """

    name: str

    def select(self, graph: SearchGraph, n: int, rng: random.Random) -> Sequence[Expansion]:
        """Up to ``n`` expansions (fewer, or none, if it wants to wait for work in flight)."""
        ...

    def update(self, graph: SearchGraph, node: Node) -> None:
        """Learn of an inserted node."""
        ...

    def state_dict(self) -> Mapping[str, Any]:
        """JSON-serialisable state that the graph alone does not tell (visit counts in flight, cursors, islands)."""
        ...

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restore what ``state_dict`` gave."""
        ...
