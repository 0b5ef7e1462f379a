"""Operator: how one program becomes another. It proposes; it has no authority to judge."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol, runtime_checkable

from kernelevolve.candidates import Candidate, Config
from kernelevolve.judge.verdict import Verdict
from kernelevolve.operators.workshop import Workshop
from kernelevolve.problems import Problem
from kernelevolve.targets import Ceilings


@dataclass(frozen=True, slots=True)
class Judged:
    """A candidate with its verdict, as operators see earlier work."""

    node_id: int
    candidate: Candidate
    verdict: Verdict
    operator: str


@dataclass(frozen=True, slots=True)
class Retune:
    """No new program, but numbers for one that was judged: its numeric search goes on from there."""

    node: int
    config: Config


@dataclass(frozen=True, slots=True)
class PastKernel:
    """The best kernel of an earlier run on a similar problem."""

    run: str
    node: int
    candidate: Candidate
    similarity: float


@dataclass(frozen=True, slots=True)
class ProposalContext:
    """Everything a proposal may depend on; behaviour comes from here and from nowhere else."""

    problem: Problem
    target: str
    facts: Mapping[str, str | int | float]
    """The target's facts (cores, SIMD width, SM count …)."""
    ceilings: Ceilings
    parents: Sequence[Judged] = ()
    """Empty: draft something new. One: change it. Two: combine them."""
    siblings: Sequence[Judged] = ()
    """Other children of the first parent, also failed ones."""
    tried: frozenset[str] = frozenset()
    """``structure_key`` of every source in the graph: proposing one of them again is a waste."""
    past: Sequence[PastKernel] = ()
    """Kernels of earlier runs on similar problems for this target, the most similar first."""
    rng: random.Random = field(default_factory=random.Random)
    number: int = 0
    """0, 1, 2 … of the questions that the run has put to operators."""
    workshop: Workshop | None = None
    """For writers only."""


class Operator(Protocol):
    """One way to make programs. The module ``operators/<name>.py`` holds ``OPERATOR``, an instance of this."""

    name: str
    arities: tuple[int, ...]
    """How many parents it can work from: 0 draft, 1 change, 2 combine."""

    def propose(self, context: ProposalContext) -> Candidate | Retune | None:
        """A candidate that is not in ``context.tried``; None if this operator has nothing new from here."""
        ...


class ProposalLost(Exception):
    """A question to a writer came to nothing by no fault of its parents: they may be asked about again."""


@runtime_checkable
class Writer(Operator, Protocol):
    """An operator that is given a workshop and paid for, and that may be out of order for a while or for good.

    ``propose`` raises ProposalLost where other operators return None.
    """

    weight: float
    """How readily it is tried, compared with other operators; theirs is 1."""

    def exhausted(self) -> str:
        """Why it is not to be asked any more, one sentence without its end; '' while it is."""
        ...
