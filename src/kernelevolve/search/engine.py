"""Engine: the steady-state loop that holds policy, operators, judge, store and ledger together."""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass

from kernelevolve.candidates import Candidate
from kernelevolve.judge.protocol import Judge
from kernelevolve.judge.verdict import Verdict, VerdictKind
from kernelevolve.operators import Operator
from kernelevolve.search.bandit import Bandit
from kernelevolve.search.evaluation import Evaluator, Outcome, Request
from kernelevolve.search.events import (
    BaselineMeasured,
    Event,
    IncumbentChanged,
    JudgeFailed,
    Listener,
    NodeInserted,
    Phase,
    PhaseChanged,
    PromotionJudged,
    RunFinished,
    RunStarted,
    TrialMeasured,
)
from kernelevolve.search.finale import Finale
from kernelevolve.search.node import Node
from kernelevolve.search.policy import Policy
from kernelevolve.search.proposals import Proposal, Proposals
from kernelevolve.search.settings import SearchSettings
from kernelevolve.search.slots import Done, Raised, Slots
from kernelevolve.search.state import SearchState
from kernelevolve.search.termination import AnyOf, Condition, Progress, RooflineFraction, Stagnation
from kernelevolve.store import RunLock, RunRecord, RunStatus, Store, Timing
from kernelevolve.targets import Target

_POLL_SECONDS = 0.25
_MOST_JUDGE_FAILURES = 5


@dataclass(frozen=True, slots=True)
class _Trial:
    """A message from an evaluation: a configuration was timed."""

    timing: Timing


@dataclass(frozen=True, slots=True)
class _Work:
    """What a slot is busy with."""

    parents: tuple[int, ...]
    operator: str
    finalist: Node | None = None


class Engine:
    """One run in this process. Everything but judging happens on the thread that calls ``run``."""

    def __init__(
        self,
        store: Store,
        record: RunRecord,
        settings: SearchSettings,
        policy: Policy,
        operators: Sequence[Operator],
        target: Target,
        judge: Judge,
        listeners: Sequence[Listener] = (),
    ) -> None:
        self._store, self._record, self._settings, self._judge = store, record, settings, judge
        self._policy, self._listeners = policy, listeners
        self._state = SearchState(store, record, settings, policy, Bandit())
        self._proposals = Proposals(self._state, operators, record.problem, target, settings.seed)
        self._slots = Slots(settings.workers)
        self._work: dict[int, _Work] = {}
        self._ticket = 0
        self._judge_failures = 0
        self._since_improvement = 0
        self._exhausted = False
        self._expired = threading.Event()
        conditions: list[Condition] = []
        if settings.roofline_target is not None:
            conditions.append(RooflineFraction(settings.roofline_target))
        if settings.stagnation is not None:
            conditions.append(Stagnation(settings.stagnation))
        self._condition = AnyOf(conditions)
        self._evaluator = Evaluator(
            judge, lambda timing: self._slots.post(_Trial(timing)), self._expired.is_set, self._state.is_duplicate
        )

    def run(self) -> None:
        """Search until a limit, then tune and promote the best. Ctrl-C ends it cleanly with everything kept."""
        lock = RunLock(self._store.workspace / self._record.id)
        lock.acquire()
        try:
            self._run()
        finally:
            lock.release()

    def _run(self) -> None:
        state, ledger = self._state, self._state.ledger
        self._store.set_status(self._record.id, RunStatus.RUNNING)
        self._tell(
            RunStarted(
                self._record.id, self._record.problem.name, self._record.target, self._settings.policy,
                self._settings.budget, ledger.reading(),
            )
        )  # fmt: skip
        best: Node | None = state.graph.best
        reason, interrupted = "", False
        try:
            self._measure_baselines()
            reason = self._search()
            self._tune_finalists()
            best = self._promote()
        except KeyboardInterrupt:
            reason, interrupted = "interrupted", True
            best = state.graph.best
        finally:
            self._expired.set()
            status = RunStatus.INTERRUPTED if interrupted or not reason else RunStatus.FINISHED
            self._store.set_status(self._record.id, status, reason, state.checkpoint())
        self._tell(
            RunFinished(self._record.id, reason, interrupted, None if best is None else best.id, ledger.reading())
        )

    # Phases

    def _measure_baselines(self) -> None:
        self._tell(PhaseChanged(Phase.BASELINES))
        baselines = self._judge.baselines()
        self._store.set_baselines(self._record.id, baselines)
        for name, seconds in baselines.items():
            self._tell(BaselineMeasured(name, seconds))

    def _search(self) -> str:
        """Keep every slot busy; why that ended."""
        self._tell(PhaseChanged(Phase.SEARCH))
        ledger = self._state.ledger
        deadline = ledger.deadline(self._settings.budget.search_until)
        while True:
            reason = self._reason_to_stop(deadline)
            if reason is None:
                self._fill_slots()
            if not self._work:
                if reason is None and self._exhausted:
                    reason = "the operators have nothing new to propose"
                if reason is not None:
                    return reason
            self._wait(deadline)

    def _reason_to_stop(self, deadline: float) -> str | None:
        ledger, budget = self._state.ledger, self._settings.budget
        if time.monotonic() >= deadline:
            return f"the search used its share of {budget.seconds / 60:.3g} minutes"
        if ledger.evaluations.spent + ledger.evaluations.committed + budget.kept_evaluations >= budget.evaluations:
            return f"all {budget.evaluations} evaluations are used" if not self._work else None
        if self._judge_failures >= _MOST_JUDGE_FAILURES:
            return f"the judge failed {self._judge_failures} times in a row"
        best = self._state.graph.best
        fraction = self._state.judged(best.id).verdict.roofline_fraction if best is not None else None
        return self._condition.reason(
            Progress(len(self._state.graph), ledger.seconds, self._since_improvement, fraction, self._exhausted)
        )

    def _fill_slots(self) -> None:
        """Start work until no slot is free, the budget is promised away, or there is nothing to start now."""
        state, budget = self._state, self._settings.budget
        while self._slots.free and not self._exhausted:
            proposal = self._proposals.next(alone=not self._work)
            if proposal is None:
                self._exhausted = not self._work
                return
            candidate = proposal.operator.propose(proposal.context)
            if candidate is None or not state.claim(candidate):
                self._proposals.exhausted(proposal)
                continue
            if not state.ledger.evaluations.commit(keep=budget.kept_evaluations):
                return
            self._start(_Work(proposal.expansion.parents, proposal.operator.name), self._request(candidate, proposal))

    def _request(self, candidate: Candidate, proposal: Proposal) -> Request:
        best = self._state.graph.best
        draft = not proposal.expansion.parents
        threshold = (
            best.fitness - math.log(self._settings.promising) if best is not None and not draft else float("-inf")
        )
        start = proposal.context.parents[0].candidate.config if proposal.context.parents else None
        return Request(candidate, start=start, trials=self._settings.quick_trials, threshold=threshold)

    def _tune_finalists(self) -> None:
        """The full numeric search of the best programs; a better configuration becomes a node of its own."""
        self._tell(PhaseChanged(Phase.FINALISTS))
        finale, ledger = self._finale(), self._state.ledger
        deadline = ledger.deadline(self._settings.budget.finalists_until)
        for node, request in finale.tuning_requests():
            if time.monotonic() >= deadline or not ledger.evaluations.commit():
                break
            self._start(_Work((node.id,), "tune", finalist=node), request)
            while self._work:
                self._wait(deadline)

    def _promote(self) -> Node | None:
        self._tell(PhaseChanged(Phase.PROMOTION))
        end = self._state.ledger.deadline(self._settings.budget.seconds)
        return self._finale().promote(
            lambda node, verdict, accepted: self._tell(PromotionJudged(node, verdict, accepted)),
            lambda: time.monotonic() >= end,
        )

    def _finale(self) -> Finale:
        return Finale(self._state, self._store, self._settings, self._judge)

    # Work in flight

    def _start(self, work: _Work, request: Request) -> None:
        self._ticket += 1
        self._work[self._ticket] = work
        self._slots.start(self._ticket, lambda: self._evaluator.evaluate(request))

    def _wait(self, deadline: float) -> None:
        """Take one message. Numeric searches in flight end when the deadline has passed."""
        if time.monotonic() >= deadline:
            self._expired.set()
        message = self._slots.wait(_POLL_SECONDS)
        if isinstance(message, _Trial):
            ledger = self._state.ledger
            ledger.count_trial()
            self._tell(TrialMeasured(message.timing[1], ledger.trials))
        elif isinstance(message, Done):
            self._settle(self._work.pop(message.key), message.result)
        elif isinstance(message, Raised):
            self._work.pop(message.key)
            raise message.error
        if not self._work:
            self._expired.clear()

    def _settle(self, work: _Work, outcome: Outcome) -> None:
        """An evaluation has ended: a node, or a failure that is nobody's fault but the machine's."""
        ledger, verdict = self._state.ledger, outcome.verdict
        ledger.count_device_seconds(outcome.device_seconds)
        if verdict.kind is VerdictKind.INFRASTRUCTURE:
            ledger.evaluations.release()
            self._judge_failures += 1
            self._tell(JudgeFailed(verdict.reason))
            return
        self._judge_failures = 0
        if work.finalist is not None and not Finale.improved(work.finalist, outcome):
            ledger.evaluations.release()
            for timing in outcome.trials:
                self._store.append_trial(self._record.id, work.finalist.id, timing)
            return
        ledger.evaluations.settle()
        self._insert(work, outcome, verdict)

    def _insert(self, work: _Work, outcome: Outcome, verdict: Verdict) -> None:
        before = self._state.graph.best
        node = self._state.insert(outcome, work.parents, work.operator)
        self._tell(NodeInserted(node, verdict, self._state.ledger.reading()))
        self._since_improvement += 1
        if node.correct and (before is None or node.fitness > before.fitness):
            self._since_improvement = 0
            self._tell(IncumbentChanged(node, verdict))

    def _tell(self, event: Event) -> None:
        for listener in self._listeners:
            listener.on_event(event)
