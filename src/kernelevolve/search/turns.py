"""Turns: a run that somebody outside searches, one question and one told candidate at a time.

Nothing is kept between two turns but the store, so they may be made by different processes, and one that is killed
between a question and its answer loses nothing. The question follows from the stored run and the seed alone: asked
again, it is the same one. A told candidate becomes a node like any other.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from random import Random

from kernelevolve.candidates import Candidate, Config
from kernelevolve.candidates.structure import program_key, read_space
from kernelevolve.errors import InvalidCandidate, InvalidRequest, KernelEvolveError
from kernelevolve.judge.protocol import Judge
from kernelevolve.judge.verdict import Verdict, VerdictKind
from kernelevolve.languages import candidate_of
from kernelevolve.prompting import BudgetLeft, Change, change_between
from kernelevolve.search.briefing import Briefing, checked_parents
from kernelevolve.search.evaluation import Evaluator, Outcome
from kernelevolve.search.events import Listener
from kernelevolve.search.finale import TUNE
from kernelevolve.search.interrupt import stop_on_interrupt
from kernelevolve.search.node import Node
from kernelevolve.search.policy import Expansion, Policy
from kernelevolve.search.retuning import retuning
from kernelevolve.search.settings import SearchSettings
from kernelevolve.search.stage import Stage, Stopped
from kernelevolve.search.state import SearchState
from kernelevolve.search.steady_state import request_for
from kernelevolve.store import RunLock, RunRecord, RunStatus, Store
from kernelevolve.targets import Target

AGENT = "agent"
"""Operator of the nodes that were told: whoever wrote them, their proposals come from outside."""
WAITING = "it waits for the next candidate"


@dataclass(frozen=True, slots=True)
class Question:
    """What the policy wants next."""

    number: int
    """Questions that were answered before."""
    parents: tuple[int, ...]
    repair: bool
    briefing: Briefing
    budget: BudgetLeft


@dataclass(frozen=True, slots=True)
class Told:
    """What came of a told candidate."""

    node: Node
    verdict: Verdict
    known: bool
    """True if the program was judged before: the answer is the store's, and nothing was spent on it."""
    change: Change
    """How it differs from its first parent, or from itself as it was judged before."""
    improved: bool
    """True if it is the best of the run."""


class Turns:
    """Questions about one run and answers to them."""

    def __init__(
        self,
        store: Store,
        record: RunRecord,
        settings: SearchSettings,
        policy: Callable[[], Policy],
        target: Target,
        listeners: Sequence[Listener] = (),
    ) -> None:
        self._store, self._record, self._settings = store, record, settings
        self._policy, self._target, self._listeners = policy, target, listeners

    def question(self, parents: Sequence[int] | None = None) -> Question:
        """The policy's next expansion, or one from the parents that are named. Writes nothing."""
        state = self._state()
        chosen = (
            next_expansion(state, self._settings.seed) if parents is None
            else Expansion(checked_parents(state.graph, parents))
        )  # fmt: skip
        briefing = Briefing(self._store, self._record, self._target, state.graph)
        return Question(state.issued, chosen.parents, chosen.repair, briefing, state.ledger.left())

    def tell(self, candidate: Candidate, judge: Callable[[], Judge], parents: Sequence[int] | None = None) -> Told:
        """Judge a candidate as an answer to the question, or as a child of other parents; keep it as a node.

        A program that was judged before is answered from the store; if its ``CONFIG`` is a new one, that goes to the
        program's numeric search. ``judge`` is only asked for when it is needed. Raises InvalidRequest if the budget is
        used up or another process searches the run, KernelEvolveError if the judge failed (then nothing was spent).
        """
        lock = RunLock(self._store.workspace / self._record.id)
        lock.acquire()
        try:
            state = self._state()
            known = self._known(state, candidate)
            if known is not None and not self._new_numbers(known, candidate):
                verdict = self._store.verdict(self._record.id, known.id)
                return Told(known, verdict, True, Change.NOTHING, known == state.graph.best)
            return self._judged(state, judge, candidate, known, parents)
        finally:
            lock.release()

    def _state(self) -> SearchState:
        return SearchState(self._store, self._record.id, self._settings.budget, self._policy())

    def _known(self, state: SearchState, candidate: Candidate) -> Node | None:
        """The first node of this program."""
        key = program_key(candidate)
        if key not in state.tried():
            return None
        return next(stored.node for stored in self._store.nodes(self._record.id) if stored.own_structure == key)

    def _new_numbers(self, node: Node, candidate: Candidate) -> bool:
        """True if a known, correct program comes with a configuration that was neither judged nor timed."""
        if not node.correct or not candidate.config:
            return False
        judged = self._store.candidate(self._record.id, node.id)
        tried: list[Config] = [read_space(judged.source).default, judged.config]
        tried += [config for config, _ in self._store.trials(self._record.id, node.id)]
        return candidate.config not in tried

    def _judged(
        self,
        state: SearchState,
        judge: Callable[[], Judge],
        candidate: Candidate,
        known: Node | None,
        parents: Sequence[int] | None,
    ) -> Told:
        named = None if parents is None else checked_parents(state.graph, parents)
        self._promise(state)
        stop = threading.Event()
        stage = Stage(state, 1, self._listeners, stop)
        stage.allow_trials_until(self._settings.budget.search_until)
        self._store.set_status(self._record.id, RunStatus.RUNNING)
        try:
            with stop_on_interrupt(stop):
                evaluator = Evaluator(judge(), self._settings.seed, stage.post_trial, stage.expired, state.is_duplicate)
                if known is not None:
                    return self._retuned(stage, evaluator, known, candidate.config)
                return self._inserted(stage, evaluator, candidate, named)
        except Stopped:
            raise KeyboardInterrupt from None
        finally:
            stop.set()
            self._store.set_status(self._record.id, RunStatus.INTERRUPTED, WAITING, state.closing_checkpoint())

    def _promise(self, state: SearchState) -> None:
        """Promise an evaluation to this candidate, or say why there is none."""
        ledger, budget = state.ledger, self._settings.budget
        complaint = ""
        if ledger.seconds >= budget.search_until and len(state.graph):
            complaint = f"{budget.search_until / 60:.3g} of {budget.seconds / 60:.3g} minutes are used"
        elif not ledger.evaluations.commit(keep=budget.kept_evaluations):
            complaint = f"{ledger.evaluations.spent} of {budget.evaluations} evaluations are used"
        if complaint:
            raise InvalidRequest(
                f"{complaint} and the others kept for the finalists",
                fix=f"end the run with: kernelevolve finish {self._record.id} (or raise its limits: kernelevolve ask "
                f"{self._record.id} --evaluations N --minutes M)",
            )

    def _inserted(
        self, stage: Stage, evaluator: Evaluator, candidate: Candidate, named: tuple[int, ...] | None
    ) -> Told:
        state = stage.state
        expansion = next_expansion(state, self._settings.seed)
        parents = expansion.parents if named is None else named
        judged = [state.judged(number) for number in parents]
        request = request_for(candidate, judged, state.graph.best, self._settings)
        outcome = stage.call(lambda: evaluator.evaluate(request))
        state.ledger.count_device_seconds(outcome.device_seconds)
        if outcome.verdict.kind is VerdictKind.INFRASTRUCTURE:
            state.ledger.evaluations.release()
            raise KernelEvolveError(
                f"the judge failed, which says nothing of the candidate: {outcome.verdict.reason}",
                fix="tell it again; nothing was spent",
            )
        if parents != expansion.parents:
            state.policy.withdraw(expansion, spent=False)
        state.issued += 1
        state.ledger.evaluations.settle()
        node = stage.insert(outcome, parents, AGENT)
        change = change_between(judged[0].candidate.source, candidate.source) if judged else Change.PROGRAM
        return Told(node, outcome.verdict, False, change, state.graph.best == node)

    def _retuned(self, stage: Stage, evaluator: Evaluator, node: Node, wish: Config) -> Told:
        """Go on with the numeric search of a known program, beginning at the wish; better numbers are a node."""
        state, run = stage.state, self._record.id
        request = retuning(state, node.id, wish, self._settings)
        outcome = stage.call(
            lambda: evaluator.evaluate(request), on_trial=lambda trial: self._store.append_trial(run, node.id, trial)
        )
        state.ledger.count_device_seconds(outcome.device_seconds)
        if outcome.candidate.id == node.candidate_id:
            state.ledger.evaluations.release()
            return Told(node, outcome.verdict, True, Change.NOTHING, state.graph.best == node)
        state.ledger.evaluations.settle()
        better = stage.insert(Outcome(outcome.candidate, outcome.verdict), (node.id,), TUNE)
        return Told(better, outcome.verdict, False, Change.NOTHING, state.graph.best == better)


def next_expansion(state: SearchState, seed: int) -> Expansion:
    """What the policy would expand next; a draft if it sees nothing, for a writer always has something new."""
    chosen = state.policy.select(state.graph, 1, Random(f"{seed}/{state.issued}"))
    return chosen[0] if chosen else Expansion(())


def told_candidate(source: str, languages: Sequence[str]) -> Candidate:
    """The candidate of a told text; one that cannot be read is one too, and the judge says what is wrong with it."""
    try:
        return candidate_of(source)
    except InvalidCandidate:
        return Candidate(source=source, language=next(iter(languages), "pytorch"))
