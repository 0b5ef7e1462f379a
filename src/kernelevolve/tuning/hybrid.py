"""Hybrid, the default: informed seeds, coordinate descent to 15 timings, then random-forest LFBO on all records.

One code path for a quick search (stop after 10 to 20 timings) and a full one (go on to 50 or 100). A single start, most
often a default that nobody thought about much, gets three random configurations beside it: descending from a bad start
wastes all of a quick search, and after a good one the three cost little (``benchmarks/tuner_replay.py``).
"""

from __future__ import annotations

import random
from collections.abc import Sequence

from kernelevolve.candidates import Config, TunableSpace
from kernelevolve.tuning.coordinate import Descent
from kernelevolve.tuning.lfbo import Forest
from kernelevolve.tuning.tuner import SeedsFirst

_DESCENT = 15
_STARTS = 4


class Hybrid(SeedsFirst):
    """Both methods look at the same records, so that one goes on where the other stopped.

    Without a start there is nothing worth descending from, and the forest works alone.
    """

    def __init__(self, space: TunableSpace, seeds: Sequence[Config], rng: random.Random) -> None:
        super().__init__(space, seeds, rng)
        self._descent = Descent(space, rng)
        self._forest = Forest(space, rng)

    def _next(self) -> Config | None:
        if len(self._seeds) == 1 and len(self._records) < _STARTS:
            return self._records.draw_new(self._space, self._rng)
        if self._seeds and len(self._records) < _DESCENT:
            near = self._descent.next(self._records)
            if near is not None:
                return near
        return self._forest.next(self._records)


TUNER = Hybrid
