"""Ranking: which node is shown as the best, once some were put to a promotion."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from kernelevolve.judge.verdict import Verdict
from kernelevolve.search.node import Node


def choose_best(nodes: Iterable[Node], promotions: Mapping[int, Verdict]) -> Node | None:
    """The node to show: the greatest speed-up among won promotions, else among those that were at least correct,
    else the fittest node that no promotion has refuted; None if there is none.
    """
    correct = [n for n in nodes if n.correct and (n.id not in promotions or promotions[n.id].correct)]

    def rank(node: Node) -> tuple[bool, bool, float]:
        promotion = promotions.get(node.id)
        if promotion is None:
            return (False, False, node.fitness)
        return (promotion.wins, True, min((s.value for s in promotion.speedups.values()), default=0.0))

    return max(correct, key=rank, default=None)
