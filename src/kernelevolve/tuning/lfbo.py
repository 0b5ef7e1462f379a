"""Likelihood-free Bayesian optimisation with a random forest (Song et al. 2022; the form used by Helion's tuner).

A classifier learns which configurations belong to the best tenth; the next one is that which it thinks most likely to.
"""

from __future__ import annotations

import math
import random
from collections.abc import Sequence

from kernelevolve.candidates import Config, TunableSpace
from kernelevolve.tuning.records import Records, key_of
from kernelevolve.tuning.tuner import SeedsFirst

_INITIAL = 10
_GOOD_SHARE = 0.1
_TREES = 20
_POOL = 500
_CENTERS = 5


class Forest:
    """The classifier's favourite among random configurations and the neighbours of the best ones."""

    def __init__(self, space: TunableSpace, rng: random.Random) -> None:
        self._space = space
        self._rng = rng
        self._all = list(space.points()) if space.at_most(2 * _POOL) else None

    def next(self, records: Records) -> Config | None:
        """A configuration that was not timed; a random one while there is nothing to learn from; None at the end."""
        if len(records) < _INITIAL or records.best is None:
            return records.draw_new(self._space, self._rng)
        pool = self._pool(records)
        if not pool:
            return records.draw_new(self._space, self._rng)
        chances = self._chances(records, pool)
        top = max(chances)
        return self._rng.choice([config for config, chance in zip(pool, chances, strict=True) if chance == top])

    def _pool(self, records: Records) -> list[Config]:
        if self._all is not None:
            return [config for config in self._all if config not in records]
        found = [self._space.random(self._rng) for _ in range(_POOL)]
        best = sorted(records.configs, key=lambda config: records.seconds[key_of(config)])[:_CENTERS]
        found += [near for center in best for near in self._space.neighbors(center)]
        return [config for config in {key_of(c): c for c in found}.values() if config not in records]

    def _chances(self, records: Records, pool: Sequence[Config]) -> list[float]:
        """How likely each of the pool is to belong to the best tenth."""
        from sklearn.ensemble import RandomForestClassifier  # takes a second to import, so not before it is needed

        seconds = [records.seconds[key_of(config)] for config in records.configs]
        working = sorted(filter(math.isfinite, seconds))
        threshold = working[: max(2, math.ceil(_GOOD_SHARE * len(seconds)))][-1]
        good = [value <= threshold for value in seconds]
        # Among the good ones the better weigh more: the expected-improvement weighting of the method.
        spread = max(threshold - records.best_seconds, 1e-3 * records.best_seconds)
        weights = [1.0 + (threshold - value) / spread if ok else 1.0 for value, ok in zip(seconds, good, strict=True)]
        forest = RandomForestClassifier(
            n_estimators=_TREES, class_weight="balanced", random_state=self._rng.getrandbits(31), n_jobs=1
        )
        forest.fit([self._space.encode(config) for config in records.configs], good, sample_weight=weights)
        if len(forest.classes_) < 2:
            return [0.0] * len(pool)
        return [float(row[1]) for row in forest.predict_proba([self._space.encode(config) for config in pool])]


class Lfbo(SeedsFirst):
    """Random configurations until there is something to learn from, then the classifier's favourites."""

    def __init__(self, space: TunableSpace, seeds: Sequence[Config], rng: random.Random) -> None:
        super().__init__(space, seeds, rng)
        self._forest = Forest(space, rng)

    def _next(self) -> Config | None:
        return self._forest.next(self._records)


TUNER = Lfbo
