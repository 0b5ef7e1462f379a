"""Rerun: the programs of a recorded run once more, to be judged anew, without whoever wrote them."""

from __future__ import annotations

from collections.abc import Sequence

from kernelevolve.candidates import Candidate
from kernelevolve.candidates.structure import program_key
from kernelevolve.operators.operator import ProposalContext


class Rerun:
    """Proposes the programs in the order in which they were judged, from whatever parents the policy chooses."""

    name = "recorded"
    arities: tuple[int, ...] = (0, 1, 2)

    def __init__(self, programs: Sequence[Candidate]) -> None:
        self._programs = programs

    def propose(self, context: ProposalContext) -> Candidate | None:
        """The first program that was not judged yet; None after the last."""
        return next((program for program in self._programs if program_key(program) not in context.tried), None)
