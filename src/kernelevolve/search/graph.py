"""SearchGraph: the insert-only graph of judged candidates, with the indices that policies need kept up to date."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from kernelevolve.search.node import Node


class SearchGraph:
    """Nodes numbered 0, 1, 2 … in the order of insertion; edges run from parents to children.

    Inserting costs O(parents), and nothing here is ever searched: 100,000 nodes must not slow a selection down.
    """

    def __init__(self) -> None:
        self._nodes: list[Node] = []
        self._children: dict[int, list[int]] = {}
        self._structures: set[str] = set()
        self._roots: list[int] = []
        self._best: Node | None = None

    def insert(self, node: Node) -> None:
        """Append a node. Raises ValueError unless its number is the next one and its parents are already there."""
        if node.id != len(self._nodes):
            raise ValueError(f"node {node.id} is not the next one, {len(self._nodes)} is")
        if any(not 0 <= parent < node.id for parent in node.parents):
            raise ValueError(f"node {node.id} has a parent that is not in the graph: {node.parents}")
        self._nodes.append(node)
        self._structures.add(node.structure)
        for parent in dict.fromkeys(node.parents):
            self._children.setdefault(parent, []).append(node.id)
        if not node.parents:
            self._roots.append(node.id)
        if node.correct and (self._best is None or node.fitness > self._best.fitness):
            self._best = node

    def __len__(self) -> int:
        return len(self._nodes)

    def __getitem__(self, number: int) -> Node:
        if number < 0:
            raise IndexError(f"there is no node {number}")
        return self._nodes[number]

    def nodes(self) -> Iterator[Node]:
        """All nodes in the order of insertion."""
        return iter(self._nodes)

    def children(self, number: int) -> Sequence[int]:
        """Numbers of the nodes made from this one, oldest first."""
        return self._children.get(number, ())

    @property
    def roots(self) -> Sequence[int]:
        """Numbers of the drafts, oldest first."""
        return self._roots

    @property
    def best(self) -> Node | None:
        """The fittest correct node, the oldest of equals; None if nothing is correct."""
        return self._best

    def contains_structure(self, key: str) -> bool:
        """True if a node of this structure was inserted."""
        return key in self._structures
