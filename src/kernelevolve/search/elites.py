"""Elites: the fittest node of every kind (structure or niche), ranked and drawn without ever looking at all of them."""

from __future__ import annotations

import heapq
import random

from kernelevolve.search.node import Node
from kernelevolve.search.sum_tree import SumTree


class Elites:
    """Keeps one node a key. A retired node keeps its place against worse ones of its key, and is not given out.

    What is given out depends on the nodes offered and those retired, not on when they were retired, so that a policy
    can be rebuilt from a graph and a list of retired nodes.
    """

    def __init__(self) -> None:
        self.best: Node | None = None
        """The fittest node ever offered, retired or not."""
        self._held: dict[str, Node] = {}
        self._position: dict[str, int] = {}
        self._active = SumTree()
        self._keys: list[str] = []
        self._ranked: list[tuple[float, int]] = []
        self._by_id: dict[int, str] = {}

    def __len__(self) -> int:
        """Number of nodes that may be given out."""
        return int(self._active.total)

    def offer(self, key: str, node: Node) -> bool:
        """True if the node now stands for its key: there was none, or a worse one."""
        held = self._held.get(key)
        if held is not None and held.fitness >= node.fitness:
            return False
        if held is None:
            self._position[key] = len(self._keys)
            self._keys.append(key)
            self._active.append(1.0)
        else:
            del self._by_id[held.id]
            self._active.set(self._position[key], 1.0)
        self._held[key] = node
        self._by_id[node.id] = key
        heapq.heappush(self._ranked, (-node.fitness, node.id))
        if self.best is None or node.fitness > self.best.fitness:
            self.best = node
        return True

    def retire(self, number: int) -> None:
        """Give this node out no more (nothing happens if it stands for no key)."""
        key = self._by_id.get(number)
        if key is not None:
            self._active.set(self._position[key], 0.0)

    def top(self, count: int) -> list[Node]:
        """Up to ``count`` nodes, the fittest first, the older one of equals. O(count log n), amortised."""
        found: list[Node] = []
        while self._ranked and len(found) < count:
            entry = heapq.heappop(self._ranked)
            key = self._by_id.get(entry[1])
            if key is not None and self._active[self._position[key]]:
                found.append(self._held[key])
        for node in found:
            heapq.heappush(self._ranked, (-node.fitness, node.id))
        return found

    def draw(self, rng: random.Random) -> Node | None:
        """One of them, each as likely as any other; None if there is none."""
        position = self._active.draw(rng)
        return None if position is None else self._held[self._keys[position]]
