"""Synthesize: a draft from the problem alone. First the plan that is right most often, then plans drawn at random."""

from __future__ import annotations

from kernelevolve.candidates import Candidate
from kernelevolve.operators.operator import ProposalContext

_DRAWS = 12
_EXPLORE = 0.35
"""Probability that a drawn plan leaves the default in one question."""


class Synthesize:
    """Drafts; needs no parent and no language model."""

    name = "synthesize"
    arities = (0,)

    def propose(self, context: ProposalContext) -> Candidate | None:
        from kernelevolve.operators.synthesis.making import new_candidate

        first = new_candidate(context, [{}], explore=0.0)
        return first or new_candidate(context, [{}] * _DRAWS, explore=_EXPLORE)


OPERATOR = Synthesize()
