"""Digest of the numeric search inside a program: which tunables matter, and where they want to be."""

from __future__ import annotations

import math
from dataclasses import dataclass

from kernelevolve.candidates.structure import read_space
from kernelevolve.errors import InvalidCandidate
from kernelevolve.prompting.context import Step
from kernelevolve.tuning.nested import sensitivities
from kernelevolve.tuning.records import Records


@dataclass(frozen=True, slots=True)
class TuningDigest:
    """What a writer can learn from the timings of one program's configurations."""

    trials: int
    failed: int
    kept: str
    """The configuration that the program was judged with."""
    lines: tuple[str, ...]
    """One a tunable that was moved, the most sensitive first."""


def tuning_digest(step: Step) -> TuningDigest | None:
    """The digest; None if nothing was tuned."""
    try:
        space = read_space(step.candidate.source)
    except InvalidCandidate:
        return None
    records = Records.of(space, step.trials)
    if len(records) == 0:
        return None
    lines = []
    for found in sensitivities(space, records):
        line = f"{found.name}: best at {found.best!r}, its worst setting costs {found.ratio:.2f}x"
        line += "; the best is at the edge of its range, a wider range may be better" if found.at_edge else ""
        line += f"; nothing worked with {', '.join(map(repr, found.failing))}" if found.failing else ""
        lines.append(line)
    failed = sum(not math.isfinite(seconds) for seconds in records.seconds.values())
    return TuningDigest(len(records), failed, str(step.candidate.config), tuple(lines))
