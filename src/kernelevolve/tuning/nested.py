"""Nested tuning: the numeric search inside one candidate, and what is to be learnt from it."""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from kernelevolve.candidates import Config, TunableSpace
from kernelevolve.candidates.space import Value
from kernelevolve.tuning import TUNERS
from kernelevolve.tuning.records import Records, key_of
from kernelevolve.tuning.tuner import Timing, Tuner

EXHAUSTIVE_BELOW = 200


@dataclass(frozen=True, slots=True)
class Sensitivity:
    """How much one tunable matters."""

    name: str
    ratio: float
    """Best time at its worst setting over best time at its best setting; 1 if it does not matter."""
    best: Value
    at_edge: bool
    """True if the best setting is the first or last allowed one: a wider range might be better still."""


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

    ``start`` is tried first, then ``seeds`` and the seeds of the space (each projected into it). ``evaluate`` gives
    seconds per call, infinite for a failure. ``earlier`` are timings of the same program: they are not repeated, and
    the search goes on from them. ``method`` names a tuner; the hybrid, or everything if the space is small and the limit
    allows it.
    """
    if method is None:
        method = "exhaustive" if space.size() <= min(limit, EXHAUSTIVE_BELOW) else "hybrid"
    wanted = [start, *seeds, space.default, *({**space.default, **seed} for seed in space.seeds)]
    first = list({key_of(c): c for c in map(space.project, wanted)}.values())
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
    """For every tunable that was moved: the best time seen at each of its settings, compared."""
    found = []
    for name, tunable in space.tunables.items():
        by_value: dict[Value, float] = {}
        for config in records.configs:
            seconds = records.seconds[key_of(config)]
            by_value[config[name]] = min(seconds, by_value.get(config[name], math.inf))
        finite = {value: s for value, s in by_value.items() if math.isfinite(s)}
        if len(finite) < 2:
            continue
        best = min(finite, key=lambda v: finite[v])
        values = list(tunable.values())
        found.append(Sensitivity(name, max(finite.values()) / finite[best], best, best in (values[0], values[-1])))
    return tuple(sorted(found, key=lambda s: -s.ratio))
