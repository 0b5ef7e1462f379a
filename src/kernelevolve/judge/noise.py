"""The noise of this machine when a judge starts: a baseline timed beside its own twin, before anything is screened."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from kernelevolve.judge.statistics import Apart, furthest_apart
from kernelevolve.judge.verdict import Clock, Samples

NOISE_AT_START = "noise_at_start"
"""Begins the names under which a measurement's environment tells of it."""


@dataclass(frozen=True, slots=True)
class StartNoise:
    """How far apart two processes of one baseline were on the workload on which they differed most."""

    baseline: str = ""
    apart: Mapping[Clock, Apart] = field(default_factory=dict)
    missing: str = ""
    """Why nothing is known, if nothing is."""

    @classmethod
    def of(cls, baseline: str, samples: Sequence[Samples]) -> StartNoise:
        """What samples of a baseline and its twin say, taken side by side; raises ValueError if they were not."""
        apart = furthest_apart(samples)
        return cls(baseline, apart, "" if apart else f"{baseline} and its twin ran no workload side by side")

    @property
    def floors(self) -> dict[Clock, float]:
        """|ratio - 1| by clock, dimensionless; empty if nothing is known."""
        return {clock: apart.value for clock, apart in self.apart.items()}

    @property
    def environment(self) -> dict[str, str]:
        """The same in words, with the intervals."""
        if self.missing:
            return {NOISE_AT_START: f"unknown: {self.missing}"}
        return {
            f"{NOISE_AT_START}.{clock}": f"{apart.value:.4f} ({apart.low:.4f} to {apart.high:.4f}), {self.baseline}"
            for clock, apart in self.apart.items()
        }
