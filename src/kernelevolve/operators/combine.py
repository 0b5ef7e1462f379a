"""Combine: for every structural decision the answer of one of two parents."""

from __future__ import annotations

from kernelevolve.candidates import Candidate
from kernelevolve.operators.operator import ProposalContext

_DRAWS = 12


class Combine:
    """Crossover of the plans of two generated programs."""

    name = "combine"
    arities = (2,)

    def propose(self, context: ProposalContext) -> Candidate | None:
        from kernelevolve.operators.synthesis.making import new_candidate, plan_of

        plans = [plan_of(context, parent.candidate) for parent in context.parents]
        if len(plans) != 2 or plans[0] is None or plans[1] is None:
            return None
        crossed = [plans[0].crossover(plans[1], context.rng) for _ in range(_DRAWS)]
        return new_candidate(context, crossed, explore=0.0)


OPERATOR = Combine()
