"""Bandit: which operator to use, by what the operators have earned lately.

Discounted UCB (Garivier and Moulines 2011): old rewards fade, because what helps at the start of a search (large
changes) is not what helps later (small ones). Rewards are improvements in log time, divided by what they cost. They
have no known bound, so the largest of the recent ones stands for it.
"""

from __future__ import annotations

import math
import random
from collections.abc import Mapping, Sequence
from typing import Any

_FORGOTTEN = 1e-3
"""Discounted uses below which nothing is left of what was learnt of an arm."""


class Bandit:
    """Chooses among arms by name; an arm that was never used, or not for very long, comes first."""

    def __init__(self, discount: float = 0.97, exploration: float = 0.35) -> None:
        self._discount = discount
        self._exploration = exploration
        self._count: dict[str, float] = {}
        self._total: dict[str, float] = {}
        self._scale = 0.0
        """Largest reward, fading like the others: the unit in which exploration is measured."""

    def choose(self, arms: Sequence[str], rng: random.Random, weights: Mapping[str, float] | None = None) -> str:
        """One of ``arms``; ties are drawn. Raises ValueError if there are none.

        ``weights`` say how readily an arm is explored, 1 by default: of the unused ones the heaviest come first, and of
        the others the bonus for being little known grows with the weight.
        """
        if not arms:
            raise ValueError("there is no arm to choose from")
        weights = weights or {}
        unused = [arm for arm in arms if self._count.get(arm, 0.0) < _FORGOTTEN]
        if unused:
            heaviest = max(weights.get(arm, 1.0) for arm in unused)
            return rng.choice([arm for arm in unused if weights.get(arm, 1.0) == heaviest])
        everything = sum(self._count[arm] for arm in arms)
        scores = {arm: self._score(arm, everything, weights.get(arm, 1.0)) for arm in arms}
        top = max(scores.values())
        return rng.choice([arm for arm in arms if scores[arm] == top])

    def _score(self, arm: str, everything: float, weight: float) -> float:
        count = self._count[arm]
        bonus = weight * math.sqrt(math.log(1.0 + everything) / count)
        return self._total[arm] / count + self._exploration * (self._scale or 1.0) * bonus

    def update(self, arm: str, reward: float, cost: float = 1.0) -> None:
        """An arm was used: ``reward`` is its improvement (0 for a failure), ``cost`` what it took, in any unit."""
        value = max(0.0, reward) / cost
        for name in self._count:
            self._count[name] *= self._discount
            self._total[name] *= self._discount
        self._count[arm] = self._count.get(arm, 0.0) + 1.0
        self._total[arm] = self._total.get(arm, 0.0) + value
        self._scale = max(self._scale * self._discount, value)

    def state_dict(self) -> dict[str, Any]:
        """All that was learnt, as JSON."""
        return {"count": dict(self._count), "total": dict(self._total), "scale": self._scale}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restore what ``state_dict`` gave."""
        self._count = {str(k): float(v) for k, v in state["count"].items()}
        self._total = {str(k): float(v) for k, v in state["total"].items()}
        self._scale = float(state["scale"])
