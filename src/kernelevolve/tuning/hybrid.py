"""Hybrid, the default: informed seeds, coordinate descent to 15 timings, then random-forest LFBO on all records.

One code path for a quick search (stop after 10 to 20 timings) and a full one (go on to 50 or 100). Without informed seeds
coordinate descent has nothing to start from, and LFBO works alone.
"""

from __future__ import annotations

import random
from collections.abc import Sequence

from kernelevolve.candidates import Config, TunableSpace
from kernelevolve.tuning.coordinate import Coordinate
from kernelevolve.tuning.lfbo import Lfbo

_DESCENT = 15


class Hybrid:
    """Both methods hear of every time, so that either can go on where the other stopped."""

    def __init__(self, space: TunableSpace, seeds: Sequence[Config], rng: random.Random) -> None:
        self._descent = Coordinate(space, seeds, rng) if seeds else None
        self._model = Lfbo(space, (), rng)
        self._told = 0

    def ask(self) -> Config | None:
        if self._descent is not None and self._told < _DESCENT:
            config = self._descent.ask()
            if config is not None:
                return config
        return self._model.ask()

    def tell(self, config: Config, seconds: float) -> None:
        self._told += 1
        if self._descent is not None:
            self._descent.tell(config, seconds)
        self._model.tell(config, seconds)


TUNER = Hybrid
