"""Coordinate descent: one tunable, one step at a time, from the best configuration so far.

The simplest tuner, and with a well-chosen start hard to beat within 20 timings.
"""

from __future__ import annotations

import random
from collections.abc import Sequence

from kernelevolve.candidates import Config, TunableSpace
from kernelevolve.tuning.records import Records, key_of


class Coordinate:
    """Seeds first, then the neighbours of the best; a step that helps is repeated in the same direction."""

    def __init__(self, space: TunableSpace, seeds: Sequence[Config], rng: random.Random) -> None:
        self._space = space
        self._rng = rng
        self._records = Records()
        self._queue = list({key_of(s): s for s in seeds}.values()) or [space.default]
        self._center: Config | None = None

    def ask(self) -> Config | None:
        while self._queue:
            config = self._queue.pop(0)
            if config not in self._records:
                return config
        best = self._records.best
        if best is None or best == self._center:
            return None
        near = [c for c in self._space.neighbors(best) if c not in self._records]
        self._rng.shuffle(near)
        if self._center is not None:
            near.sort(key=lambda c: not self._continues(self._center or {}, best, c))
        self._center = best
        self._queue = near
        return self.ask()

    @staticmethod
    def _continues(before: Config, now: Config, after: Config) -> bool:
        """True if the tunable that moved last moves again."""
        moved = {name for name in now if before.get(name) != now[name]}
        return any(now[name] != after[name] for name in moved)

    def tell(self, config: Config, seconds: float) -> None:
        better = seconds < self._records.best_seconds
        self._records.add(config, seconds)
        if better and self._center is not None and config != self._center:
            self._queue = []  # Go on from here at once, not after the old centre's other neighbours.


TUNER = Coordinate
