"""Nested tuning: the numeric search inside one candidate, and what is to be learnt from it."""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from kernelevolve.candidates import Bool, Config, TunableSpace
from kernelevolve.candidates.space import Value
from kernelevolve.tuning import TUNERS
from kernelevolve.tuning.records import Records, key_of
from kernelevolve.tuning.tuner import Timing, Tuner

EXHAUSTIVE_BELOW = 200


@dataclass(frozen=True, slots=True)
class Sensitivity:
    """How much one tunable matters: a line of the digest that operators and people read."""

    name: str
    ratio: float
    """Best time at its worst setting over best time at its best setting; 1 if it does not matter."""
    best: Value
    at_edge: bool
    """True if the best setting is the first or last of a range: a wider one might be better still."""
    failing: tuple[Value, ...] = ()
    """Settings with which nothing worked that was tried (too much shared memory, say)."""


@dataclass(frozen=True, slots=True)
class TuningReport:
    """A numeric search."""

    trials: tuple[Timing, ...]
    """All timings, earlier ones included, in order; infinite where a configuration failed."""
    best: Config
    seconds: float
    sensitivities: tuple[Sensitivity, ...]
    failures: int

    def ranked(self) -> list[Config]:
        """Configurations that worked, fastest first."""
        working = [t for t in self.trials if math.isfinite(t[1])]
        return [config for config, _ in sorted(working, key=lambda t: t[1])]


def tune(
    space: TunableSpace,
    start: Config,
    evaluate: Callable[[Config], float],
    *,
    limit: int,
    rng: random.Random,
    earlier: Sequence[Timing] = (),
    seeds: Sequence[Config] = (),
    expired: Callable[[], bool] = lambda: False,
    method: str | None = None,
) -> TuningReport:
    """Time configurations until ``limit`` were timed in all, nothing is left, or ``expired`` says so.

    ``start`` is tried first, then ``seeds`` (both projected into the space), its default and its own seeds.
    ``evaluate`` gives seconds per call, infinite for a failure. ``earlier`` are timings of the same program: they are
    not repeated, and the search goes on from them. ``method`` names a tuner; if it is None, everything is timed where
    the space is small and the limit allows it, and the hybrid searches elsewhere.
    """
    if method is None:
        method = "exhaustive" if space.at_most(min(limit, EXHAUSTIVE_BELOW)) else "hybrid"
    first = [space.project(start), *map(space.project, seeds), *space.starts()]
    tuner: Tuner = TUNERS.get(method)(space, first, rng)
    records, trials = Records(), list(earlier)
    for config, seconds in earlier:
        records.add(config, seconds)
        tuner.tell(config, seconds)
    while len(trials) < limit and not expired():
        asked = tuner.ask()
        if asked is None:
            break
        seconds = evaluate(asked)
        records.add(asked, seconds)
        trials.append((asked, seconds))
        tuner.tell(asked, seconds)
    best = records.best if records.best is not None else space.project(start)
    failures = sum(not math.isfinite(seconds) for _, seconds in trials)
    return TuningReport(tuple(trials), best, records.best_seconds, sensitivities(space, records), failures)


def sensitivities(space: TunableSpace, records: Records) -> tuple[Sensitivity, ...]:
    """For every tunable that was moved: the best time seen at each of its settings, compared. Most sensitive first."""
    found = []
    for name, tunable in space.tunables.items():
        by_value: dict[Value, float] = {}
        for config in records.configs:
            seconds = records.seconds[key_of(config)]
            by_value[config[name]] = min(seconds, by_value.get(config[name], math.inf))
        working = {value: seconds for value, seconds in by_value.items() if math.isfinite(seconds)}
        if len(working) < 2:
            continue
        best = min(working, key=lambda value: working[value])
        values = tunable.values()
        ends = tunable.ordered and not isinstance(tunable, Bool) and best in (values[0], values[-1])
        failing = tuple(value for value in values if by_value.get(value, 0.0) == math.inf)
        found.append(Sensitivity(name, max(working.values()) / working[best], best, ends, failing))
    return tuple(sorted(found, key=lambda s: -s.ratio))
