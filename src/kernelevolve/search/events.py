"""What happens in a search, as it happens: for the live view, logs and tests."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol, TypeAlias

from kernelevolve.judge.verdict import Verdict
from kernelevolve.search.ledger import Budget, Spent
from kernelevolve.search.node import Node


class Phase(StrEnum):
    """The parts of a run, in their order."""

    BASELINES = "baselines"
    """The judge prepares its expected values and times the baselines."""
    SEARCH = "search"
    FINALISTS = "finalists"
    """The best programs get the full numeric tuning and a second look."""
    PROMOTION = "promotion"
    """The winner is put to the strict test."""


@dataclass(frozen=True, slots=True)
class RunStarted:
    """The first event of every run, also of a continued one."""

    run: str
    problem: str
    target: str
    policy: str
    budget: Budget
    spent: Spent
    """What an earlier process spent; all zero for a new run."""


@dataclass(frozen=True, slots=True)
class BaselineMeasured:
    """One baseline was timed."""

    name: str
    seconds: float | None
    """Seconds per call; None: it could not run."""


@dataclass(frozen=True, slots=True)
class PhaseChanged:
    """The run enters a phase."""

    phase: Phase


@dataclass(frozen=True, slots=True)
class TrialMeasured:
    """One configuration of one program was timed."""

    seconds: float | None
    """Seconds per call; None: the configuration failed."""
    trials: int
    """Trials of the run so far."""


@dataclass(frozen=True, slots=True)
class NodeInserted:
    """A judged candidate is in the graph and on the disk."""

    node: Node
    verdict: Verdict
    spent: Spent


@dataclass(frozen=True, slots=True)
class IncumbentChanged:
    """A node is better than every earlier one (as the search measured it; a claim needs the promotion)."""

    node: Node
    verdict: Verdict


@dataclass(frozen=True, slots=True)
class JudgeFailed:
    """The judge or the machine failed on a candidate twice; the candidate was not judged and is not in the graph."""

    reason: str


@dataclass(frozen=True, slots=True)
class ModelUnavailable:
    """A language model that was named cannot be used here; the search goes on without it, as was allowed."""

    reason: str


@dataclass(frozen=True, slots=True)
class OperatorFailed:
    """An operator raised an exception, a fault of its own; it is not asked about the same parents again."""

    operator: str
    error: Exception


@dataclass(frozen=True, slots=True)
class PromotionJudged:
    """A finalist was put to the strict test."""

    node: Node
    verdict: Verdict
    accepted: bool
    """True if it is correct and faster than every baseline beyond its confidence interval."""


@dataclass(frozen=True, slots=True)
class RunFinished:
    """The last event: the search ended, or was interrupted and can be resumed."""

    run: str
    reason: str
    interrupted: bool
    best: int | None
    """Node id of the best kernel; None if nothing was correct."""
    spent: Spent


Event: TypeAlias = (
    RunStarted
    | BaselineMeasured
    | PhaseChanged
    | TrialMeasured
    | NodeInserted
    | IncumbentChanged
    | JudgeFailed
    | ModelUnavailable
    | OperatorFailed
    | PromotionJudged
    | RunFinished
)


class Listener(Protocol):
    """Somebody who wants to know. Called in the engine's own thread, one event at a time; be quick."""

    def on_event(self, event: Event) -> None:
        """React; an exception ends the run, for a listener that fails silently is worse."""
        ...
