"""Coordinate descent: one tunable, one step at a time, from the best configuration so far.

The simplest tuner, and with a well-chosen start hard to beat within 20 timings; it is what PyTorch's inductor does from
its default configuration.
"""

from __future__ import annotations

import random
from collections.abc import Sequence

from kernelevolve.candidates import Config, TunableSpace
from kernelevolve.tuning.records import Records
from kernelevolve.tuning.tuner import SeedsFirst


class Descent:
    """The neighbours of the best configuration; a step that helped is tried again in the same tunable first."""

    def __init__(self, space: TunableSpace, rng: random.Random) -> None:
        self._space = space
        self._rng = rng
        self._center: Config | None = None
        self._near: list[Config] = []

    def next(self, records: Records) -> Config | None:
        """A neighbour that was not timed; None if the best configuration has no such neighbour (or none works)."""
        best = records.best
        if best is None:
            return None
        if best != self._center:
            near = self._space.neighbors(best)
            self._rng.shuffle(near)
            moved = {name for name in best if self._center is not None and self._center[name] != best[name]}
            near.sort(key=lambda config: all(config[name] == best[name] for name in moved))
            self._center, self._near = best, near
        return next((config for config in self._near if config not in records), None)


class Coordinate(SeedsFirst):
    """Descent; at the bottom random configurations, until one of them is better and a new descent begins there."""

    def __init__(self, space: TunableSpace, seeds: Sequence[Config], rng: random.Random) -> None:
        super().__init__(space, seeds, rng)
        self._descent = Descent(space, rng)

    def _next(self) -> Config | None:
        near = self._descent.next(self._records)
        return near if near is not None else self._records.draw_new(self._space, self._rng)


TUNER = Coordinate
