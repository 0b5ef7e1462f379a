"""Mutate: one structural decision of a generated program, answered differently."""

from __future__ import annotations

from kernelevolve.candidates import Candidate
from kernelevolve.operators.operator import ProposalContext


class Mutate:
    """Changes one decision of its parent; the numbers are the tuner's business."""

    name = "mutate"
    arities = (1,)

    def propose(self, context: ProposalContext) -> Candidate | None:
        from kernelevolve.operators.synthesis.making import new_candidate, plan_of

        plan = plan_of(context, context.parents[0].candidate)
        if plan is None:
            return None
        neighbors = plan.neighbors()
        context.rng.shuffle(neighbors)
        return new_candidate(context, neighbors, explore=0.0)


OPERATOR = Mutate()
