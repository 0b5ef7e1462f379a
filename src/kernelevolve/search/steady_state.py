"""Steady state: no generations; whenever a slot is free, the next candidate is proposed and judged."""

from __future__ import annotations

import math
from collections.abc import Sequence

from kernelevolve.candidates import Candidate
from kernelevolve.errors import KernelEvolveError
from kernelevolve.judge.verdict import VerdictKind
from kernelevolve.operators import Judged
from kernelevolve.search.evaluation import Evaluator, Outcome, Request
from kernelevolve.search.events import JudgeFailed, OperatorFailed
from kernelevolve.search.node import Node
from kernelevolve.search.proposals import Proposal, Proposals
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


class SteadyState:
    """The search phase of a run.

    A slot is given to a proposal first and to its evaluation then. One operator is asked at a time, so that it knows
    of every program before its own; evaluations run side by side.
    """

    def __init__(self, stage: Stage, proposals: Proposals, evaluator: Evaluator, settings: SearchSettings) -> None:
        self._stage, self._state, self._evaluations = stage, stage.state, stage.state.ledger.evaluations
        self._proposals, self._evaluator, self._settings = proposals, evaluator, settings
        self._end = AnyOf(_conditions(settings))
        self._asked: dict[int, Proposal] = {}
        self._judging: dict[int, Proposal] = {}
        self._exhausted = False
        self._operator_failure = ""
        self._judge_failures = 0
        self._judge_failure = ""

    def run(self) -> str:
        """Search until there is a reason to end and nothing is in flight any more; that reason, one sentence."""
        self._stage.allow_trials_until(self._settings.budget.search_until)
        while True:
            reason = self._reason_to_end()
            if reason is None:
                self._fill_slots()
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
        reason, failures = self._end.reason(progress), [self._operator_failure]
        if self._judge_failures:
            failures.append(f"the judge failed: {self._judge_failure}")
        told = "; ".join(filter(None, failures))
        return f"{reason} ({told})" if reason and self._exhausted and told else reason

    # Proposing

    def _fill_slots(self) -> None:
        """Ask for the next candidate if there is a slot and an evaluation for it and nobody is being asked."""
        if self._asked or not self._stage.free:
            return
        if not self._evaluations.commit(keep=self._settings.budget.kept_evaluations):
            return
        proposal = self._proposals.next()
        if proposal is None:
            self._evaluations.release()
            self._exhausted = not self._judging
        else:
            self._ask(proposal)

    def _ask(self, proposal: Proposal) -> None:
        self._asked[self._stage.start(lambda: proposal.operator.propose(proposal.context))] = proposal

    def _answered(self, proposal: Proposal, answer: Done | Raised) -> None:
        """An operator proposed a candidate, had nothing new, or failed; one that failed is asked no more about this."""
        candidate: Candidate | None = None
        if isinstance(answer, Done):
            candidate = answer.result
        elif isinstance(answer.error, KernelEvolveError):
            raise answer.error
        else:
            self._operator_failure = f"{proposal.operator.name} failed: {type(answer.error).__name__}: {answer.error}"
            self._stage.tell(OperatorFailed(proposal.operator.name, answer.error))
        if self._reason_to_end() is not None:
            self._evaluations.release()
        elif candidate is not None and self._state.claim(candidate):
            request = request_for(candidate, proposal.context.parents, self._state.graph.best, self._settings)
            self._judging[self._stage.start(lambda: self._evaluator.evaluate(request))] = proposal
        elif (other := self._proposals.instead(proposal)) is not None:
            self._ask(other)
        else:
            self._evaluations.release()

    # Judging

    def _settle_one(self) -> None:
        ended = self._stage.wait()
        if ended.key in self._asked:
            self._answered(self._asked.pop(ended.key), ended)
            return
        proposal = self._judging.pop(ended.key)
        if isinstance(ended, Raised):
            raise ended.error
        self._judged(proposal, ended.result)

    def _judged(self, proposal: Proposal, outcome: Outcome) -> None:
        """An evaluation has ended: in a node, or in a failure that is not the candidate's."""
        self._state.ledger.count_device_seconds(outcome.device_seconds)
        if outcome.verdict.kind is VerdictKind.INFRASTRUCTURE:
            self._evaluations.release()
            self._judge_failures += 1
            self._judge_failure = outcome.verdict.reason
            self._state.give_back(outcome.candidate)
            self._state.policy.withdraw(proposal.expansion, spent=False)
            self._stage.tell(JudgeFailed(outcome.verdict.reason))
            return
        self._judge_failures = 0
        self._evaluations.settle()
        self._stage.insert(outcome, proposal.expansion.parents, proposal.operator.name)


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
