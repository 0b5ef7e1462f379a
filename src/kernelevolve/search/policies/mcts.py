"""MCTS: UCT (Kocsis and Szepesvári 2006) over the tree of programs, with progressive widening (Coulom 2007).

A node may have ceil(widening * visits^exponent) children, so that few evaluations are not all spent on the first level.
A node's value is the best fitness below it, not the mean: a search for one fast kernel does not care how bad the other
children are. Values are scaled by the range seen so far. An expansion counts as a visit from the moment it is issued
(virtual loss, Chaslot et al. 2008), so that several at once go to different places.
"""

from __future__ import annotations

import math
import random
from dataclasses import dataclass, field

from kernelevolve.search.expanding import ExpandingPolicy
from kernelevolve.search.graph import SearchGraph
from kernelevolve.search.node import Node

_ROOT = -1


@dataclass(slots=True)
class _Vertex:
    """A correct program in the tree, or the virtual root, whose children are the drafts."""

    above: int | None
    value: float
    visits: int = 0
    """Expansions issued at this vertex or below it."""
    started: int = 0
    """Expansions issued at this vertex, whatever became of them."""
    below: list[int] = field(default_factory=list)
    closed: bool = False
    """True if neither this vertex nor any below it has anything new to give."""


class Mcts(ExpandingPolicy):
    """Walks down from the virtual root to the first vertex that may have another child.

    The tree holds correct programs. A program that mends a failure hangs below the correct program that the failure
    came from; a failure counts as a visit that brought nothing. Of two parents the first counts. The defaults of the
    three constants were the best of 27 settings over 30 replays on synthetic landscapes; the differences are small.
    """

    name = "mcts"

    def __init__(
        self,
        *,
        exploration: float = 0.2,
        widening: float = 2.0,
        exponent: float = 0.6,
        drafts: int = 3,
        debug_probability: float = 0.2,
        debug_depth: int = 3,
    ) -> None:
        super().__init__(drafts=drafts, debug_probability=debug_probability, debug_depth=debug_depth)
        self._exploration = exploration
        self._widening = widening
        self._exponent = exponent
        self._vertices: dict[int, _Vertex] = {_ROOT: _Vertex(above=None, value=-math.inf)}
        self._anchors: list[int] = []
        """Node -> the vertex that its children hang below: itself if it is correct."""
        self._low, self._high = math.inf, -math.inf

    def _choose(self, graph: SearchGraph, rng: random.Random) -> tuple[int, ...] | None:
        while not self._vertices[_ROOT].closed:
            at = self._descend()
            if not self._is_spent(at):
                return () if at == _ROOT else (at,)
            self._vertices[at].closed = True
        return None

    def _descend(self) -> int:
        """The vertex to expand; a spent one if there is nothing else below it."""
        at = _ROOT
        while True:
            vertex = self._vertices[at]
            if not self._is_spent(at) and vertex.started < self._room(vertex):
                return at
            best, best_score = None, -math.inf
            log_visits = math.log(1 + vertex.visits)
            for number in vertex.below:
                child = self._vertices[number]
                if not child.closed and (score := self._score(child, log_visits)) > best_score:
                    best, best_score = number, score
            if best is None:
                return at
            at = best

    def _room(self, vertex: _Vertex) -> int:
        """How many children a vertex may have at its present number of visits."""
        return math.ceil(self._widening * math.pow(1 + vertex.visits, self._exponent))

    def _score(self, child: _Vertex, log_visits: float) -> float:
        spread = self._high - self._low
        scaled = (child.value - self._low) / spread if spread > 0 else 0.5
        return scaled + self._exploration * math.sqrt(log_visits / (1 + child.visits))

    def _is_spent(self, at: int) -> bool:
        return self._in_flight.is_spent(() if at == _ROOT else (at,))

    def _anchor(self, parents: tuple[int, ...]) -> int:
        return self._anchors[parents[0]] if parents else _ROOT

    def _learn(self, node: Node, *, asked: bool) -> None:
        above = self._anchor(node.parents)
        if not asked:  # else the visit was counted when it was issued
            self._visit(above, 1)
        if not node.correct:
            self._anchors.append(above)
            return
        self._anchors.append(node.id)
        self._vertices[node.id] = _Vertex(above=above, value=node.fitness)
        self._vertices[above].below.append(node.id)
        if math.isfinite(node.fitness):
            self._low, self._high = min(self._low, node.fitness), max(self._high, node.fitness)
        at: int | None = above
        while at is not None and ((vertex := self._vertices[at]).closed or vertex.value < node.fitness):
            vertex.value, vertex.closed = max(vertex.value, node.fitness), False
            at = vertex.above

    def _visit(self, at: int, change: int) -> None:
        """Count an expansion at a vertex and on all vertices above it."""
        self._vertices[at].started += change
        up: int | None = at
        while up is not None:
            vertex = self._vertices[up]
            vertex.visits += change
            up = vertex.above

    def _issued(self, parents: tuple[int, ...]) -> None:
        self._visit(self._anchor(parents), 1)

    def _withdrawn(self, parents: tuple[int, ...]) -> None:
        self._visit(self._anchor(parents), -1)

    def _retire(self, parents: tuple[int, ...]) -> None:
        """A spent vertex closes by itself, when the walk next comes by."""


POLICY = Mcts
