"""Random search: the control for every other tuner."""

from __future__ import annotations

from kernelevolve.candidates import Config
from kernelevolve.tuning.tuner import SeedsFirst


class RandomSearch(SeedsFirst):
    """Uniform draws without repetition."""

    def _next(self) -> Config | None:
        return self._records.draw_new(self._space, self._rng)


TUNER = RandomSearch
