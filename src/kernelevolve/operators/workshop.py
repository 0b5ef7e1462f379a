"""Workshop: what a run lends to whoever writes one program for it."""

from __future__ import annotations

from typing import Protocol

from kernelevolve.candidates import Candidate
from kernelevolve.judge.verdict import Verdict
from kernelevolve.operators.exchange import ExchangeLog
from kernelevolve.operators.purse import Purse
from kernelevolve.prompting import PromptContext, Step


class Workshop(Protocol):
    """For one question. Any thread may use it."""

    @property
    def brief(self) -> PromptContext:
        """What the run knows at this question, as of the instant at which it was put."""
        ...

    @property
    def purse(self) -> Purse:
        """The run's model money."""
        ...

    @property
    def log(self) -> ExchangeLog:
        """Where requests and answers are kept."""
        ...

    def step(self, node: int) -> Step:
        """A judged program of the run. Raises InvalidRequest if there is no such node."""
        ...

    def build(self, candidate: Candidate) -> Verdict | None:
        """Build a program and call it once; None if that works, else what the judge says."""
        ...

    def seconds_left(self) -> float:
        """For how long the search may go on; 0 if it was stopped."""
        ...
