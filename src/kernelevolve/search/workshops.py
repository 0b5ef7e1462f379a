"""Workshops: what the run lends to writers, made on the engine's thread and used on others."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from kernelevolve.candidates import Candidate
from kernelevolve.errors import InvalidRequest
from kernelevolve.judge.protocol import Judge
from kernelevolve.judge.verdict import Verdict
from kernelevolve.operators.exchange import Conclusion, Exchange
from kernelevolve.operators.purse import Purse
from kernelevolve.prompting import PromptContext, Retriever, Step
from kernelevolve.search.briefing import Briefing
from kernelevolve.search.state import SearchState
from kernelevolve.store import RunRecord, Store
from kernelevolve.targets import Target


@dataclass(frozen=True, slots=True)
class RunLog:
    """The exchanges of one run; implements ``ExchangeLog``."""

    store: Store
    run: str

    def append(self, exchange: Exchange) -> None:
        """Keep an exchange."""
        self.store.recordings.append(self.run, exchange)

    def conclude(self, conclusion: Conclusion) -> None:
        """Keep the end of a conversation."""
        self.store.recordings.conclude(self.run, conclusion)


@dataclass(frozen=True, slots=True)
class RunWorkshop:
    """For one question; implements ``Workshop``."""

    brief: PromptContext
    purse: Purse
    log: RunLog
    briefing: Briefing
    nodes: int
    """How many there were when the question was put."""
    judge: Judge
    seconds_left: Callable[[], float]

    def step(self, node: int) -> Step:
        """A judged program. Raises InvalidRequest if there was no such node at the question."""
        if not 0 <= node < self.nodes:
            raise InvalidRequest(f"there is no node {node}", fix=f"give a number from 0 to {self.nodes - 1}")
        return self.briefing.step(node)

    def build(self, candidate: Candidate) -> Verdict | None:
        """Build a program and call it once; None if that works."""
        return self.judge.build(candidate)


class Workshops:
    """Makes the workshop of each question."""

    def __init__(
        self,
        state: SearchState,
        record: RunRecord,
        target: Target,
        judge: Judge,
        retriever: Retriever | None,
        stopped: Callable[[], bool],
    ) -> None:
        self._state, self._judge, self._retriever, self._stopped = state, judge, retriever, stopped
        self._briefing = Briefing(state.store, record, target, state.graph)
        self._log = RunLog(state.store, state.run)

    def open(self, parents: Sequence[int]) -> RunWorkshop:
        """The workshop of a question about these parents, as of now."""
        state = self._state
        brief = self._briefing.context(parents, state.ledger.left(), retriever=self._retriever)
        return RunWorkshop(
            brief, state.ledger.purse, self._log, self._briefing, len(state.graph), self._judge, self._seconds_left
        )  # fmt: skip

    def _seconds_left(self) -> float:
        return 0.0 if self._stopped() else self._state.ledger.left().seconds
