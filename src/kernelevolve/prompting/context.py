"""PromptContext: everything that the next program may be written from. Records only; who gathers them knows the run."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum

from kernelevolve.candidates import Candidate, Config
from kernelevolve.judge.verdict import Verdict
from kernelevolve.problems import Problem
from kernelevolve.profilers import Diagnosis
from kernelevolve.prompting.analysis import Analysis
from kernelevolve.prompting.retrieval import Found
from kernelevolve.targets import Ceilings


class Memory(StrEnum):
    """What a writer is told of earlier work."""

    INHERIT = "inherit"
    """How the parent came to be: its ancestors."""
    SIBLINGS = "siblings"
    """What else was made from the parent, and what became of it."""
    BOTH = "both"
    CLEAN = "clean"
    """Nothing but the parent: the way out of a rut that the history describes."""


@dataclass(frozen=True, slots=True)
class Step:
    """A judged program as a writer is shown it."""

    node_id: int
    parents: tuple[int, ...]
    operator: str
    candidate: Candidate
    verdict: Verdict
    fitness: float
    """log(best baseline seconds / candidate seconds); -inf if not correct."""
    trials: tuple[tuple[Config, float | None], ...] = ()
    """Configurations that were timed, with seconds per call; None: it failed."""

    @property
    def speedup(self) -> float:
        """Best baseline time over this program's; 0 if it is not correct."""
        return math.exp(self.fitness) if self.fitness > -math.inf else 0.0


@dataclass(frozen=True, slots=True)
class BudgetLeft:
    """What the run may still spend."""

    evaluations: int
    seconds: float


@dataclass(frozen=True, slots=True)
class PromptContext:
    """All that a prompt is made from; the same context gives the same prompt."""

    problem: Problem
    target: str
    facts: Mapping[str, str | int | float]
    """The target's facts (cores, SIMD width, SM count …)."""
    ceilings: Ceilings | None
    """None if they are not measured yet."""
    languages: Mapping[str, str]
    """Languages that can be written here -> what does not work in them; '' if nothing is known not to."""
    baselines: Mapping[str, float | None]
    """Seconds per call; None: it could not run."""
    budget: BudgetLeft
    parents: Sequence[Step] = ()
    """Empty: draft something new. One: change it. Two: combine them."""
    ancestors: Sequence[Step] = ()
    """Of the first parent, the nearest first."""
    siblings: Sequence[Step] = ()
    """Other programs made from the first parent; for a draft the other drafts. The oldest first."""
    best: Step | None = None
    memory: Memory = Memory.BOTH
    diagnosis: Diagnosis | None = None
    """Of the first parent, where profilers were asked; without it, one is made from the verdict."""
    analysis: Analysis | None = None
    """What somebody made of all this before; None if nobody was asked."""
    found: Sequence[Found] | None = None
    """Pages of the knowledge base; None if there is none to ask."""
    skills: Sequence[Found] = ()
    """What earlier runs on similar problems learnt, the most similar first."""
    names: Mapping[str, str] = field(default_factory=dict)
    """Further facts to be shown, such as the device's name."""
