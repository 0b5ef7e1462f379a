"""MCTS: UCT (Kocsis and Szepesvári 2006) over the tree of programs, with progressive widening (Coulom 2007).

A node may have ceil(widening * visits^exponent) children, so that few evaluations are not all spent on the first level.
A node's value is the best fitness below it, not the mean: a search for one fast kernel does not care how bad the other
children are. Values are scaled by the range seen so far. An expansion counts as a visit from the moment it is issued
(virtual loss, Chaslot et al. 2008), so that several at once go to different places.
"""

from __future__ import annotations

import heapq
import math
import random
from dataclasses import dataclass, field

from kernelevolve.search.expanding import ExpandingPolicy
from kernelevolve.search.graph import SearchGraph
from kernelevolve.search.node import Node


@dataclass(slots=True, eq=False)
class _Vertex:
    """A correct program in the tree, or the virtual root, whose children are the drafts."""

    number: int
    """Of the node; -1 for the virtual root."""
    above: _Vertex | None
    value: float
    """Best fitness here and below."""
    visits: int = 0
    """Expansions issued at this vertex or below it."""
    met: bool = False
    """True if it has ever had a visit, also one that was withdrawn."""
    started: int = 0
    """Expansions issued at this vertex, whatever became of them."""
    fresh: list[tuple[float, int]] = field(default_factory=list)
    """Children without visits, a heap of (-value, number): the fittest of them has their greatest bound."""
    tried: list[_Vertex] = field(default_factory=list)
    """Children that have had a visit."""
    open_below: int = 0
    """Children that are not closed."""
    spent: bool = False
    """True if nothing new can be made from this program itself."""
    closed: bool = False
    """True if it is spent and so is everything below it."""


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
        self._root = _Vertex(number=-1, above=None, value=-math.inf)
        self._anchors: list[_Vertex] = []
        """Node -> the vertex that its children hang below: its own if it is correct."""
        self._low, self._high = math.inf, -math.inf

    def _choose(self, graph: SearchGraph, rng: random.Random) -> tuple[int, ...] | None:
        if self._root.closed:
            return None
        at = self._root
        while at.spent or at.started >= self._room(at):
            child = self._best_child(at)
            if child is None:
                break
            at = child
        return () if at is self._root else (at.number,)

    def _room(self, vertex: _Vertex) -> int:
        """How many children a vertex may have at its present number of visits."""
        return math.ceil(self._widening * math.pow(1 + vertex.visits, self._exponent))

    def _best_child(self, vertex: _Vertex) -> _Vertex | None:
        """The open child of the greatest upper confidence bound, the oldest of equals."""
        low, spread = self._low, self._high - self._low
        scale = 1 / spread if spread > 0 else 0.0
        bonus = self._exploration * math.sqrt(math.log(1 + vertex.visits))
        best = self._best_fresh(vertex)
        best_bound = (best.value - low) * scale + bonus if best is not None else -math.inf
        for child in vertex.tried:
            bound = (child.value - low) * scale + bonus / math.sqrt(1 + child.visits)
            if bound < best_bound or child.closed:
                continue
            if best is None or bound > best_bound or child.number < best.number:
                best, best_bound = child, bound
        return best

    def _best_fresh(self, vertex: _Vertex) -> _Vertex | None:
        """The fittest open child without visits; entries of others are dropped when they are met."""
        while vertex.fresh:
            child = self._anchors[vertex.fresh[0][1]]
            if not child.met and not child.closed:
                return child
            heapq.heappop(vertex.fresh)
        return None

    def _anchor(self, parents: tuple[int, ...]) -> _Vertex:
        return self._anchors[parents[0]] if parents else self._root

    def _learn(self, node: Node, *, asked: bool) -> None:
        above = self._anchor(node.parents)
        if not asked:  # else the visit was counted when it was issued
            self._visit(above, 1)
        if not (node.correct and math.isfinite(node.fitness)):
            self._anchors.append(above)
            return
        vertex = _Vertex(number=node.id, above=above, value=node.fitness)
        self._anchors.append(vertex)
        self._low, self._high = min(self._low, node.fitness), max(self._high, node.fitness)
        heapq.heappush(above.fresh, (-vertex.value, vertex.number))
        above.open_below += 1
        at: _Vertex | None = above
        while at is not None and (at.closed or at.value < node.fitness):
            at.value = max(at.value, node.fitness)
            if at.closed:
                at.closed = False
                if at.above is not None:
                    at.above.open_below += 1
            at = at.above

    @staticmethod
    def _visit(vertex: _Vertex, change: int) -> None:
        """Count an expansion at a vertex and on all vertices above it."""
        vertex.started += change
        at: _Vertex | None = vertex
        while at is not None:
            if not at.met and at.above is not None:
                at.above.tried.append(at)
                at.met = True
            at.visits += change
            at = at.above

    def _issued(self, parents: tuple[int, ...]) -> None:
        self._visit(self._anchor(parents), 1)

    def _withdrawn(self, parents: tuple[int, ...]) -> None:
        self._visit(self._anchor(parents), -1)

    def _retire(self, parents: tuple[int, ...]) -> None:
        vertex = self._anchor(parents)
        if len(parents) > 1 or (parents and vertex.number != parents[0]):
            return  # two programs to combine, or a failure that cannot be mended
        vertex.spent = True
        at: _Vertex | None = vertex
        while at is not None and at.spent and not at.closed and not at.open_below:
            at.closed = True
            at = at.above
            if at is not None:
                at.open_below -= 1


POLICY = Mcts
