"""The judge as the rest of the system sees it."""

from __future__ import annotations

from typing import Protocol

from kernelevolve.candidates import Candidate
from kernelevolve.judge.verdict import Effort, Verdict


class Judge(Protocol):
    """Judges candidates of one problem on one target.

    ``evaluate`` may be called from several threads: building runs side by side, and each device times one thing at a
    time. It never raises for anything a candidate does; a failure of the judge or machine is ``infrastructure``.
    """

    def evaluate(self, candidate: Candidate, effort: Effort = Effort.SCREEN) -> Verdict:
        """The verdict on one candidate."""
        ...

    def build(self, candidate: Candidate) -> Verdict | None:
        """Build a candidate and check one call; None if that works, else the verdict that it would meet.

        Says nothing of a candidate that passes: that takes ``evaluate``.
        """
        ...

    def baselines(self) -> dict[str, float | None]:
        """Seconds per call of each named baseline (geometric mean over search workloads); None if it could not run."""
        ...

    def close(self) -> None:
        """End all worker processes; the judge cannot be used afterwards."""
        ...
