"""Cases of the self-test: exploits, good kernels and faults of a harness. Records that are read, never run here."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from pydantic import BaseModel, ConfigDict, Field, model_validator

from kernelevolve.judge.verdict import Effort, VerdictKind

CATALOGUE = range(1, 134)
"""Numbers of the fault catalogue."""
REACHED = "REACHED"
"""First word of what a candidate raises that came to something it must not have."""


class Family(StrEnum):
    """The parts of the catalogue."""

    CLOCK = "clock"
    OUTPUT = "output"
    TASK = "task"
    HARNESS = "harness"


class WorksIf(StrEnum):
    """What would mean that an exploit has fooled the judge."""

    CORRECT = "correct"
    """It is called correct."""
    FAST = "fast"
    """It is called correct, with less time than a call of it really takes."""
    WIN = "win"
    """It is called faster than every baseline. For programs that are right, and no better than what there was."""
    REACHED = "reached"
    """It came to what no candidate may touch, and says so by raising an exception that begins with REACHED."""


class _Header(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")

    problem: str = Field(description="stem of the problem file that it answers")
    targets: frozenset[str] = Field(min_length=1, description="names of the targets on which it means anything")
    needs: tuple[str, ...] = Field(default=(), description="languages that must be usable: 'cpp', 'triton', 'cuda'")
    effort: Effort = Effort.SCREEN


class ExploitHeader(_Header):
    """The literal ``EXPLOIT`` of a corpus file."""

    numbers: tuple[int, ...] = Field(min_length=1, description="entries of the fault catalogue")
    works_if: WorksIf = WorksIf.CORRECT
    seconds: float | None = Field(default=None, gt=0, description="what a call really takes at least")
    expect: tuple[VerdictKind, ...] = Field(default=(), description="verdicts that are the right ones; () for any")
    rounds: int = Field(default=1, ge=1, description="how often it is judged: what one round leaves, a later one finds")

    @model_validator(mode="after")
    def _sound(self) -> ExploitHeader:
        if unknown := set(self.numbers) - set(CATALOGUE):
            raise ValueError(f"the catalogue has no entries {sorted(unknown)}")
        if (self.works_if is WorksIf.FAST) != (self.seconds is not None):
            raise ValueError("'seconds' belongs to works_if='fast', and only to that")
        if self.works_if is WorksIf.WIN and self.effort is not Effort.PROMOTION:
            raise ValueError("only a promotion can find a win")
        return self


class GoodHeader(_Header):
    """The literal ``GOOD`` of a corpus file."""


@dataclass(frozen=True, slots=True)
class Exploit:
    """A candidate that tries to be called correct, or faster than it is, and must not be."""

    name: str
    family: Family
    tries: str
    """One sentence: the trick."""
    header: ExploitHeader
    path: Path


@dataclass(frozen=True, slots=True)
class Good:
    """An honest candidate that a nervous judge might refuse."""

    name: str
    tries: str
    """One sentence: what about it might look suspicious."""
    header: GoodHeader
    path: Path


@dataclass(frozen=True, slots=True)
class Fault:
    """A fault of a harness that needs no candidate: put into the judge's own pieces, which must show it."""

    name: str
    numbers: tuple[int, ...]
    tries: str
    inject: Callable[[Path], str | None]
    """Injects the fault, with a directory to work in. Why the judge did not show it, or None if it did."""


class Status(StrEnum):
    """How a case ended."""

    CAUGHT = "caught"
    MISSED = "missed"
    ACCEPTED = "accepted"
    REFUSED = "refused"
    NOT_HERE = "not applicable here"


class Result(BaseModel):
    """One case and how it ended."""

    model_config = ConfigDict(frozen=True)

    name: str
    kind: str = Field(description="'exploit', 'fault' or 'good'")
    numbers: tuple[int, ...] = ()
    tries: str
    status: Status
    verdict: str = Field(default="", description="the judge's word; empty for faults")
    stage: str = ""
    reason: str = Field(default="", description="the judge's sentence, or why the case was not run")
    seconds: float = Field(default=0.0, description="how long judging took")

    @property
    def failed(self) -> bool:
        """True if the judge was fooled, or refused an honest kernel."""
        return self.status in (Status.MISSED, Status.REFUSED)
