"""Proposals: which operator works on which parents next, and which of them have nothing more to give."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations

from kernelevolve.operators import Judged, Operator, ProposalContext
from kernelevolve.problems import Problem
from kernelevolve.search.policy import Expansion
from kernelevolve.search.state import SearchState
from kernelevolve.targets import Target

_POLICY_ATTEMPTS = 4
"""How often the policy is asked for something that is not exhausted before the next best program is taken instead."""
_SIBLINGS_SHOWN = 32
_PAIRED_PROGRAMS = 6


@dataclass(frozen=True, slots=True)
class Proposal:
    """Work for an operator: everything that its answer depends on."""

    ticket: int
    """Number of the proposal in the run; with the seed it gives the random stream."""
    expansion: Expansion
    operator: Operator
    context: ProposalContext


class Proposals:
    """Pairs what the policy selects with an operator that the bandit chooses, and remembers what is exhausted.

    An operator that answers None has nothing new from those parents and is not asked again in this process.
    """

    def __init__(
        self, state: SearchState, operators: Sequence[Operator], problem: Problem, target: Target, seed: int
    ) -> None:
        self._state = state
        self._operators = tuple(operators)
        self._problem = problem
        self._target = target
        self._seed = seed
        self._dry: set[tuple[str, tuple[int, ...]]] = set()

    def next(self, *, alone: bool) -> Proposal | None:
        """The next piece of work; None if there is none now.

        ``alone`` says that nothing is in flight: then a policy that would rather wait is not waited for, and None
        means that every operator is exhausted.
        """
        state = self._state
        rng = random.Random(f"{self._seed}/{state.issued}")
        for expansion in self._expansions(rng, alone):
            arms = self._arms(expansion)
            if arms:
                name = state.bandit.choose([arm.name for arm in arms], rng)
                operator = next(arm for arm in arms if arm.name == name)
                proposal = Proposal(state.issued, expansion, operator, self._context(expansion, rng))
                state.issued += 1
                return proposal
        return None

    def exhausted(self, proposal: Proposal) -> None:
        """The operator had nothing new from these parents."""
        self._dry.add((proposal.operator.name, proposal.expansion.parents))

    def _arms(self, expansion: Expansion) -> list[Operator]:
        """Operators of the right arity that may still have something from these parents."""
        parents = expansion.parents
        return [o for o in self._operators if o.arity == len(parents) and (o.name, parents) not in self._dry]

    def _expansions(self, rng: random.Random, alone: bool) -> Iterator[Expansion]:
        """What the policy wants; when that is exhausted, the best programs that are not."""
        state = self._state
        for _ in range(_POLICY_ATTEMPTS):
            selected = state.policy.select(state.graph, 1, rng)
            if not selected and not alone:
                return
            yield from selected
        yield Expansion(())
        correct = state.ranked()
        yield from (Expansion((node.id,)) for node in correct)
        distinct = list({node.structure: node.id for node in reversed(correct)}.values())[::-1][:_PAIRED_PROGRAMS]
        yield from (Expansion(pair) for pair in combinations(distinct, 2))
        yield from (Expansion((node.id,), repair=True) for node in state.graph.nodes() if not node.correct)

    def _context(self, expansion: Expansion, rng: random.Random) -> ProposalContext:
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
            rng=random.Random(rng.getrandbits(64)),
        )
