"""Exhaustive: every allowed configuration, seeds first. For spaces below about 200 points."""

from __future__ import annotations

import random
from collections.abc import Sequence

from kernelevolve.candidates import Config, TunableSpace
from kernelevolve.tuning.records import Records, key_of


class Exhaustive:
    """Ends when everything was timed."""

    def __init__(self, space: TunableSpace, seeds: Sequence[Config], rng: random.Random) -> None:
        rest = list(space.points())
        rng.shuffle(rest)
        self._queue = list({key_of(c): c for c in [*seeds, *rest]}.values())
        self._records = Records()

    def ask(self) -> Config | None:
        while self._queue:
            config = self._queue.pop(0)
            if config not in self._records:
                return config
        return None

    def tell(self, config: Config, seconds: float) -> None:
        self._records.add(config, seconds)


TUNER = Exhaustive
