"""Random search: the control for every other tuner."""

from __future__ import annotations

import random
from collections.abc import Sequence

from kernelevolve.candidates import Config, TunableSpace
from kernelevolve.tuning.records import Records

_ATTEMPTS = 200


class RandomSearch:
    """Uniform draws without repetition; gives up when it only meets what it knows."""

    def __init__(self, space: TunableSpace, seeds: Sequence[Config], rng: random.Random) -> None:
        self._space = space
        self._rng = rng
        self._queue = list(seeds)
        self._records = Records()

    def ask(self) -> Config | None:
        while self._queue:
            config = self._queue.pop(0)
            if config not in self._records:
                return config
        for _ in range(_ATTEMPTS):
            config = self._space.random(self._rng)
            if config not in self._records:
                return config
        return next((c for c in self._space.points() if c not in self._records), None)

    def tell(self, config: Config, seconds: float) -> None:
        self._records.add(config, seconds)


TUNER = RandomSearch
