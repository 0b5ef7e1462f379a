"""Termination: when a search ends. Conditions are asked after every node; the first that says a reason ends it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol


@dataclass(frozen=True, slots=True)
class Progress:
    """Where a search stands."""

    evaluations: int
    seconds: float
    since_improvement: int
    """Evaluations since the incumbent last changed by more than noise."""
    roofline_fraction: float | None
    """Of the incumbent."""
    exhausted: bool = False
    """True if no operator has anything new."""


class Condition(Protocol):
    """One reason to end a search."""

    def reason(self, progress: Progress) -> str | None:
        """One sentence if the search should end now, else None."""
        ...

    def share(self, progress: Progress) -> float:
        """How much of the way to this end is behind, from 0 to 1; 0 if that cannot be known."""
        ...


@dataclass(frozen=True, slots=True)
class Evaluations:
    """A number of judged candidates."""

    limit: int
    kept: int = 0
    """Those of them that the search leaves for the finalists."""

    def reason(self, progress: Progress) -> str | None:
        own = self.limit - self.kept
        if progress.evaluations < own:
            return None
        if self.kept == 0:
            return f"all {self.limit} evaluations are used"
        return f"{own} of {self.limit} evaluations are used and the others kept for the finalists"

    def share(self, progress: Progress) -> float:
        return min(1.0, progress.evaluations / max(1, self.limit - self.kept))


@dataclass(frozen=True, slots=True)
class Seconds:
    """A time."""

    limit: float
    kept: float = 0.0
    """The part of it that the search leaves for the finalists."""

    def reason(self, progress: Progress) -> str | None:
        own = self.limit - self.kept
        if progress.seconds < own:
            return None
        if self.kept == 0:
            return f"{self.limit / 60:.3g} minutes are over"
        return f"{own / 60:.3g} of {self.limit / 60:.3g} minutes are over and the others kept for the finalists"

    def share(self, progress: Progress) -> float:
        own = self.limit - self.kept
        return min(1.0, progress.seconds / own) if own > 0 else 1.0


@dataclass(frozen=True, slots=True)
class RooflineFraction:
    """A distance to what the device can do."""

    target: float

    def reason(self, progress: Progress) -> str | None:
        reached = progress.roofline_fraction
        if reached is None or reached < self.target:
            return None
        return f"the best kernel reaches {reached:.0%} of the roofline, {self.target:.0%} was asked for"

    def share(self, progress: Progress) -> float:
        return 0.0


@dataclass(frozen=True, slots=True)
class Stagnation:
    """A number of evaluations that brought nothing better."""

    patience: int

    def reason(self, progress: Progress) -> str | None:
        if progress.since_improvement < self.patience:
            return None
        return f"{progress.since_improvement} evaluations in a row brought nothing better"

    def share(self, progress: Progress) -> float:
        return 0.0


@dataclass(frozen=True, slots=True)
class Exhausted:
    """Nothing left to try."""

    def reason(self, progress: Progress) -> str | None:
        return "the operators have nothing new to propose" if progress.exhausted else None

    def share(self, progress: Progress) -> float:
        return 0.0


@dataclass(frozen=True, slots=True)
class AnyOf:
    """Whichever comes first."""

    conditions: Sequence[Condition]

    def reason(self, progress: Progress) -> str | None:
        return next((r for c in self.conditions if (r := c.reason(progress)) is not None), None)

    def share(self, progress: Progress) -> float:
        return max((c.share(progress) for c in self.conditions), default=0.0)
