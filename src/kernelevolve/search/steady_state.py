"""Steady state: no generations; whenever a slot is free, the next candidate is proposed and judged."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from kernelevolve.candidates import Candidate
from kernelevolve.errors import KernelEvolveError
from kernelevolve.judge.verdict import VerdictKind
from kernelevolve.operators import Judged, ProposalLost, Retune, Writer
from kernelevolve.operators.exchange import Conclusion
from kernelevolve.search.evaluation import Evaluator, Outcome, Request
from kernelevolve.search.events import JudgeFailed, OperatorFailed
from kernelevolve.search.finale import TUNE
from kernelevolve.search.node import Node
from kernelevolve.search.policy import Expansion
from kernelevolve.search.proposals import Proposal, Proposals
from kernelevolve.search.retuning import retuning
from kernelevolve.search.settings import SearchSettings
from kernelevolve.search.slots import Done, Raised
from kernelevolve.search.stage import Stage
from kernelevolve.search.termination import (
    AnyOf,
    Condition,
    Evaluations,
    Exhausted,
    Progress,
    RooflineFraction,
    Seconds,
    Stagnation,
)

_MOST_JUDGE_FAILURES = 3
"""In a row: then it is the machine, and further candidates would fail as well."""


@dataclass(frozen=True, slots=True)
class _Judging:
    """A candidate in the judge's hands."""

    operator: str
    parents: tuple[int, ...]
    question: int
    expansion: Expansion | None
    """None if the question was put by a process that is gone."""
    retuned: int | None = None
    """The node whose numeric search this is; None for a new program."""


class SteadyState:
    """The search phase of a run.

    A slot is given to a proposal first and to its evaluation then. Unless several conversations were asked for, one
    operator is asked at a time, so that it knows of every program before its own; evaluations run side by side.
    """

    def __init__(self, stage: Stage, proposals: Proposals, evaluator: Evaluator, settings: SearchSettings) -> None:
        self._stage, self._state, self._evaluations = stage, stage.state, stage.state.ledger.evaluations
        self._proposals, self._evaluator, self._settings = proposals, evaluator, settings
        self._end = AnyOf(_conditions(settings))
        self._asked: dict[int, Proposal] = {}
        self._judging: dict[int, _Judging] = {}
        self._exhausted = False
        self._operator_failure = ""
        self._judge_failures = 0
        self._judge_failure = ""

    def run(self) -> str:
        """Search until there is a reason to end and nothing is in flight any more; that reason, one sentence."""
        self._stage.allow_trials_until(self._settings.budget.search_until)
        for written in self._state.store.recordings.unjudged(self._state.run):
            self._adopt(written)
        while True:
            reason = self._reason_to_end()
            if reason is None:
                while self._ask_next():
                    pass
            elif not self._asked and not self._judging:
                return reason
            if self._asked or self._judging:
                self._settle_one()

    def _reason_to_end(self) -> str | None:
        if self._judge_failures >= _MOST_JUDGE_FAILURES:
            return f"the judge failed on {self._judge_failures} candidates in a row: {self._judge_failure}"
        graph = self._state.graph
        best = graph.best
        progress = Progress(
            evaluations=self._evaluations.spent,
            # A run whose baselines took all its time still judges one candidate.
            seconds=self._state.ledger.seconds if len(graph) else 0.0,
            since_improvement=len(graph) - 1 - best.id if best is not None else len(graph),
            roofline_fraction=None if best is None else self._state.judged(best.id).verdict.roofline_fraction,
            exhausted=self._exhausted,
        )
        reason = self._end.reason(progress)
        if reason is None or not self._exhausted:
            return reason
        because = [*self._proposals.out_of_order(), *filter(None, [self._operator_failure])]
        if self._judge_failures:
            because.append(f"the judge failed: {self._judge_failure}")
        return f"{reason} ({'; '.join(because)})" if because else reason

    # Proposing

    def _ask_next(self) -> bool:
        """Ask for the next candidate if there are a slot, an evaluation and somebody to ask; True if that was done."""
        if len(self._asked) >= self._settings.conversations or not self._stage.free:
            return False
        if not self._evaluations.commit(keep=self._settings.budget.kept_evaluations):
            return False
        proposal = self._proposals.next()
        if proposal is None:
            self._evaluations.release()
            self._exhausted = not self._judging and not self._asked
            return False
        self._ask(proposal)
        return True

    def _ask(self, proposal: Proposal) -> None:
        self._asked[self._stage.start(lambda: proposal.operator.propose(proposal.context))] = proposal

    def _answered(self, proposal: Proposal, answer: Done | Raised) -> None:
        """An operator proposed a candidate, had nothing new, or failed; one that failed is asked no more about this."""
        found: Candidate | Retune | None = None
        if isinstance(answer, Done):
            found = answer.result
        elif isinstance(answer.error, KernelEvolveError):
            raise answer.error
        else:
            self._operator_failure = f"{proposal.operator.name} failed: {type(answer.error).__name__}: {answer.error}"
            if isinstance(answer.error, ProposalLost):
                self._operator_failure = str(answer.error)
            self._stage.tell(OperatorFailed(proposal.operator.name, answer.error))
        paid = isinstance(proposal.operator, Writer)
        if found is not None and (paid or self._reason_to_end() is None) and self._put_to_judge(proposal, found):
            return
        if paid:
            # Whatever it was, the writer may do better next time: the parents are not spent.
            self._evaluations.release()
            self._state.policy.withdraw(proposal.expansion, spent=False)
            self._state.lost(proposal.operator.name, proposal.context.number)
        elif self._reason_to_end() is not None:
            self._evaluations.release()
        elif (other := self._proposals.instead(proposal)) is not None:
            self._ask(other)
        else:
            self._evaluations.release()

    def _put_to_judge(self, proposal: Proposal, found: Candidate | Retune) -> bool:
        """Have it judged; False if it was judged before."""
        parents, number = proposal.expansion.parents, proposal.context.number
        if isinstance(found, Retune):
            request = retuning(self._state, found.node, found.config, self._settings)
            self._judge(request, _Judging(TUNE, (found.node,), number, proposal.expansion, found.node))
            return True
        if not self._state.claim(found):
            return False
        request = request_for(found, proposal.context.parents, self._state.graph.best, self._settings)
        self._judge(request, _Judging(proposal.operator.name, parents, number, proposal.expansion))
        return True

    def _adopt(self, written: Conclusion) -> None:
        """Judge a program that was written, and paid for, before the last process of this run ended."""
        candidate = Candidate(source=written.source, language=written.language, config=written.config)
        if not self._evaluations.commit() or not self._state.claim(candidate):
            return
        parents = [self._state.judged(number) for number in written.parents]
        request = request_for(candidate, parents, self._state.graph.best, self._settings)
        self._judge(request, _Judging(written.operator, written.parents, written.proposal, None))

    # Judging

    def _judge(self, request: Request, judging: _Judging) -> None:
        self._judging[self._stage.start(lambda: self._evaluator.evaluate(request))] = judging

    def _settle_one(self) -> None:
        ended = self._stage.wait()
        if ended.key in self._asked:
            self._answered(self._asked.pop(ended.key), ended)
            return
        judging = self._judging.pop(ended.key)
        if isinstance(ended, Raised):
            raise ended.error
        self._judged(judging, ended.result)

    def _judged(self, judging: _Judging, outcome: Outcome) -> None:
        """An evaluation has ended: in a node, or in a failure that is not the candidate's."""
        self._state.ledger.count_device_seconds(outcome.device_seconds)
        if outcome.verdict.kind is VerdictKind.INFRASTRUCTURE:
            self._judge_failures += 1
            self._judge_failure = outcome.verdict.reason
            if judging.retuned is None:
                self._state.give_back(outcome.candidate)
            self._withdraw(judging)
            self._stage.tell(JudgeFailed(outcome.verdict.reason))
            return
        self._judge_failures = 0
        if judging.retuned is not None:
            self._retuned(judging, judging.retuned, outcome)
            return
        self._evaluations.settle()
        self._stage.insert(outcome, judging.parents, judging.operator, judging.question)

    def _retuned(self, judging: _Judging, node: int, outcome: Outcome) -> None:
        """A numeric search went on: its trials belong to its node, and better numbers make a node of their own."""
        state = self._state
        for trial in outcome.trials:
            state.store.append_trial(state.run, node, trial)
        if outcome.candidate.id == state.graph[node].candidate_id:
            self._withdraw(judging)
            return
        self._evaluations.settle()
        found = Outcome(outcome.candidate, outcome.verdict)
        self._stage.insert(found, judging.parents, judging.operator, judging.question)

    def _withdraw(self, judging: _Judging) -> None:
        self._evaluations.release()
        if judging.expansion is not None:
            self._state.policy.withdraw(judging.expansion, spent=False)


def request_for(
    candidate: Candidate, parents: Sequence[Judged], best: Node | None, settings: SearchSettings
) -> Request:
    """How a candidate of these parents is to be judged: its numeric search begins at theirs, if it is worth one."""
    threshold = -math.inf
    if best is not None and parents:
        threshold = best.fitness - math.log(settings.promising)
    inherited = tuple(parent.candidate.config for parent in parents if parent.candidate.config)
    return Request(candidate, inherited, settings.quick_trials, threshold)


def _conditions(settings: SearchSettings) -> list[Condition]:
    """Every reason to end a search that these settings know."""
    budget = settings.budget
    conditions: list[Condition] = [
        Evaluations(budget.evaluations, budget.kept_evaluations),
        Seconds(budget.seconds, budget.seconds - budget.search_until),
        Exhausted(),
    ]
    if settings.roofline_target is not None:
        conditions.append(RooflineFraction(settings.roofline_target))
    if settings.stagnation is not None:
        conditions.append(Stagnation(settings.stagnation))
    return conditions
