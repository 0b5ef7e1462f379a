"""Recorded: a language model that is not asked again, for its answers are known."""

from __future__ import annotations

from collections.abc import Mapping

from kernelevolve.candidates import Candidate
from kernelevolve.operators.exchange import Conclusion, Ending
from kernelevolve.operators.operator import ProposalContext, ProposalLost, Retune


class Recorded:
    """Gives to every question of a run what the model of this name gave to it."""

    arities: tuple[int, ...] = (0, 1, 2)

    def __init__(self, name: str, weight: float, conclusions: Mapping[int, Conclusion]) -> None:
        self.name, self.weight, self._conclusions = name, weight, conclusions
        self._exhausted = ""

    def exhausted(self) -> str:
        """As it was in the recorded run after the last question that was put."""
        return self._exhausted

    def propose(self, context: ProposalContext) -> Candidate | Retune | None:
        """The recorded end of this question. Raises ProposalLost if that was nothing, or if there is none."""
        found = self._conclusions.get(context.number)
        if found is None or found.operator != self.name:
            raise ProposalLost(f"the recording has no answer of {self.name} to question {context.number}")
        self._exhausted = found.exhausted
        if found.ending is Ending.CANDIDATE:
            return Candidate(source=found.source, language=found.language, config=found.config)
        if found.ending is Ending.RETUNE and found.node is not None:
            return Retune(found.node, found.config)
        raise ProposalLost(found.reason)
