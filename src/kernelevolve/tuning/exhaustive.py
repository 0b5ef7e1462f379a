"""Exhaustive: every allowed configuration, in a random order. For spaces below about 200 points."""

from __future__ import annotations

import random
from collections.abc import Sequence

from kernelevolve.candidates import Config, TunableSpace
from kernelevolve.tuning.tuner import SeedsFirst


class Exhaustive(SeedsFirst):
    """Ends when everything was timed; cut short, it is a random search that never draws in vain."""

    def __init__(self, space: TunableSpace, seeds: Sequence[Config], rng: random.Random) -> None:
        super().__init__(space, seeds, rng)
        self._points = list(space.points())
        rng.shuffle(self._points)

    def _next(self) -> Config | None:
        while self._points and self._points[-1] in self._records:
            self._points.pop()
        return self._points[-1] if self._points else None


TUNER = Exhaustive
