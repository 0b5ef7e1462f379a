"""Transfer: a draft that won in an earlier run on a similar problem. Whether it fits this one, the judge decides."""

from __future__ import annotations

from kernelevolve.candidates import Candidate
from kernelevolve.candidates.structure import structure_key
from kernelevolve.errors import InvalidCandidate
from kernelevolve.operators.operator import ProposalContext


class Transfer:
    """Proposes past kernels as they are, the most similar problem's first; changing them is for other operators."""

    name = "transfer"
    arities = (0,)

    def propose(self, context: ProposalContext) -> Candidate | None:
        for past in context.past:
            try:
                key = structure_key(past.candidate.source)
            except InvalidCandidate:
                continue
            if key not in context.tried:
                return past.candidate
        return None


OPERATOR = Transfer()
