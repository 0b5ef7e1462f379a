"""Proposals: what the policy selects, paired with an operator that may have something new for it."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass

from kernelevolve.operators import Judged, Operator, PastKernel, ProposalContext, Writer
from kernelevolve.problems import Problem
from kernelevolve.search.policy import Expansion
from kernelevolve.search.state import SearchState
from kernelevolve.search.workshops import Workshops
from kernelevolve.targets import Target

_SIBLINGS_SHOWN = 32


@dataclass(frozen=True, slots=True)
class Proposal:
    """A question to an operator, with everything that its answer depends on."""

    expansion: Expansion
    operator: Operator
    context: ProposalContext


class Proposals:
    """Asks the policy for parents and the bandit for an operator, and remembers who has nothing more to give.

    An operator that answers None has nothing new from those parents and is not asked about them again in this process.
    Every random choice comes from the seed and the number of the proposal.
    """

    def __init__(
        self,
        state: SearchState,
        operators: Sequence[Operator],
        problem: Problem,
        target: Target,
        seed: int,
        past: Sequence[PastKernel] = (),
        workshops: Workshops | None = None,
    ) -> None:
        """``workshops`` are for writers; without any, they get none."""
        self._state = state
        self._operators = tuple(operators)
        self._problem = problem
        self._target = target
        self._seed = seed
        self._workshops = workshops
        self._past = tuple(past)
        self._dry: set[tuple[str, tuple[int, ...]]] = set()

    def next(self) -> Proposal | None:
        """The next question; None if the policy sees nothing to expand at present, or nobody can be asked any more."""
        state = self._state
        while len(self.out_of_order()) < len(self._operators) and (
            selected := state.policy.select(state.graph, 1, self._rng())
        ):
            proposal = self._ask_for(selected[0])
            if proposal is not None:
                return proposal
        return None

    def instead(self, refused: Proposal) -> Proposal | None:
        """The operator had nothing new: the same expansion for another operator.

        None, and the policy knows that the parents are spent, if no other is left.
        """
        self._dry.add((refused.operator.name, refused.expansion.parents))
        return self._ask_for(refused.expansion)

    def out_of_order(self) -> list[str]:
        """Why writers are not asked any more, one sentence each; empty while all are."""
        return [reason for operator in self._operators if (reason := _exhausted(operator))]

    def _rng(self) -> random.Random:
        return random.Random(f"{self._seed}/{self._state.issued}")

    def _ask_for(self, expansion: Expansion) -> Proposal | None:
        state, parents = self._state, expansion.parents
        arms = {
            operator.name: operator
            for operator in self._operators
            if len(parents) in operator.arities
            and (operator.name, parents) not in self._dry
            and not _exhausted(operator)
        }
        if not arms:
            state.policy.withdraw(expansion, spent=True)
            return None
        rng = self._rng()
        weights = {name: operator.weight for name, operator in arms.items() if isinstance(operator, Writer)}
        operator = arms[state.bandit.choose(list(arms), rng, weights)]
        number = state.issued
        state.issued += 1
        return Proposal(expansion, operator, self._context(expansion, operator, number, rng))

    def _context(self, expansion: Expansion, operator: Operator, number: int, rng: random.Random) -> ProposalContext:
        state = self._state
        siblings: tuple[Judged, ...] = ()
        if expansion.parents:
            children = state.graph.children(expansion.parents[0])
            siblings = tuple(state.judged(number) for number in children[-_SIBLINGS_SHOWN:])
        return ProposalContext(
            problem=self._problem,
            target=self._target.name,
            facts=self._target.facts(),
            ceilings=self._target.ceilings(),
            parents=tuple(state.judged(number) for number in expansion.parents),
            siblings=siblings,
            tried=state.tried(),
            past=self._past,
            rng=random.Random(rng.getrandbits(64)),
            number=number,
            workshop=self._workshops.open(expansion.parents)
            if self._workshops and isinstance(operator, Writer)
            else None,
        )


def _exhausted(operator: Operator) -> str:
    return operator.exhausted() if isinstance(operator, Writer) else ""
