"""Conversation: from a prompt to a program that is worth a verdict, with a tool-using language model."""

from __future__ import annotations

from dataclasses import dataclass

from pydantic_ai import Agent, ModelRetry
from pydantic_ai.models import Model

from kernelevolve.candidates import Candidate
from kernelevolve.candidates.structure import program_key, read_space
from kernelevolve.errors import InvalidCandidate
from kernelevolve.languages import candidate_of
from kernelevolve.operators.llm.instructions import rendered
from kernelevolve.operators.llm.lint import complaints
from kernelevolve.operators.llm.metered import Meter
from kernelevolve.operators.llm.tools import Tools
from kernelevolve.operators.operator import Retune
from kernelevolve.prompting import Change, PromptContext, answered_source, assemble, change_between

_TOOL_REPAIRS = 3
"""Calls of tools in a row that are sent back because their arguments cannot be read."""


@dataclass(slots=True)
class Conversation:
    """One prompt and everything that is said until it is answered."""

    model: Model
    meter: Meter
    context: PromptContext
    tried: frozenset[str]
    tools: Tools
    actions: int
    repairs: int

    async def write(self, prompt_tokens: int) -> Candidate | Retune:
        """The program, or the numbers for one that is known.

        Raises UnexpectedModelBehavior if no answer could be used, and whatever a request raises (``Metered.request``).
        """
        found: list[Candidate | Retune] = []

        def checked(text: str) -> str:
            try:
                found.append(self._read(text))
            except InvalidCandidate as error:
                raise ModelRetry(self._complaint(error.sentence)) from None
            return text

        agent = Agent(
            self.model, output_type=str, instructions=rendered("write", actions=self.actions),
            tools=self.tools.all(), retries={"output": self.repairs, "tools": _TOOL_REPAIRS},
        )  # fmt: skip
        agent.output_validator(checked)
        await agent.run(assemble(self.context, tokens=prompt_tokens).text)
        return found[-1]

    def _complaint(self, sentence: str) -> str:
        if self.meter.cut_off:
            return f"The answer was cut off after {self.meter.answer_tokens} tokens: {sentence}. Answer more briefly."
        return f"That answer cannot be used: {sentence}."

    def _read(self, text: str) -> Candidate | Retune:
        """What an answer means. Raises InvalidCandidate, with words for the model, if it is not worth a verdict."""
        parent = self.context.parents[0] if self.context.parents else None
        answered = answered_source(text, parent.candidate.source if parent else None)
        wrong = complaints(answered, self.context.languages)
        if wrong:
            raise InvalidCandidate("; ".join(wrong))
        candidate = candidate_of(answered)
        if parent is None:
            return self._new(candidate)
        change = change_between(parent.candidate.source, candidate.source)
        if change is Change.NOTHING:
            if not parent.verdict.correct or candidate.config in (
                parent.candidate.config,
                read_space(candidate.source).default,
            ):
                raise InvalidCandidate("it is the same program as before", fix="change the program")
            return Retune(parent.node_id, candidate.config)
        if change is Change.NUMBERS and parent.verdict.correct:
            raise InvalidCandidate(
                f"it differs from node {parent.node_id} in numbers only",
                fix="declare them as TUNABLES, and a numeric search finds the best, or change more than numbers",
            )
        return self._new(candidate)

    def _new(self, candidate: Candidate) -> Candidate:
        if program_key(candidate) in self.tried:
            raise InvalidCandidate("this very program was judged before", fix="write one that is not yet known")
        return candidate
