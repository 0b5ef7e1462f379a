"""Digest of the numeric search inside the best program: which tunables matter, and where they want to be."""

from __future__ import annotations

import math
from dataclasses import dataclass

from kernelevolve.candidates.space import Value
from kernelevolve.report.contents import Contents
from kernelevolve.report.explain import space_of
from kernelevolve.tuning.nested import Sensitivity, sensitivities
from kernelevolve.tuning.records import Records


@dataclass(frozen=True, slots=True)
class Setting:
    """One value of a tunable."""

    value: Value
    seconds: float
    """Best time seen with it, whatever the others were set to."""
    share: float
    """That time over the worst setting's, for a bar."""
    chosen: bool
    """True if the best node has it."""


@dataclass(frozen=True, slots=True)
class Knob:
    """One tunable that was moved."""

    sensitivity: Sensitivity
    settings: tuple[Setting, ...]


def knobs(contents: Contents) -> tuple[Knob, ...]:
    """The tunables of the best program that were moved, the most sensitive first."""
    if contents.best is None:
        return ()
    space = space_of(contents.best)
    records = Records.of(space, contents.best_trials)
    return tuple(
        Knob(s, _settings(s.name, records, contents.best.candidate.config.get(s.name)))
        for s in sensitivities(space, records)
    )


def _settings(name: str, records: Records, chosen: Value | None) -> tuple[Setting, ...]:
    best: dict[Value, float] = {}
    for key, seconds in records.seconds.items():
        value = dict(key)[name]
        if math.isfinite(seconds):
            best[value] = min(seconds, best.get(value, math.inf))
    worst = max(best.values())
    ordered = sorted(best.items(), key=lambda item: (isinstance(item[0], str), item[0]))
    return tuple(Setting(v, s, s / worst, v == chosen) for v, s in ordered)
