"""LanguageModel: the universal operator. What it does follows from what it is told, not from a kind of prompt."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from pydantic_ai import Agent
from pydantic_ai.exceptions import AgentRunError

from kernelevolve.candidates import Candidate
from kernelevolve.knowledge import KnowledgeBase
from kernelevolve.operators.exchange import AFTER_ALL, Conclusion, Ending, ExchangeLog, Purpose
from kernelevolve.operators.llm import loop
from kernelevolve.operators.llm.context_memory import analyse, deep_search
from kernelevolve.operators.llm.conversation import Conversation
from kernelevolve.operators.llm.failure import AnswerLost, FailureKind
from kernelevolve.operators.llm.instructions import rendered
from kernelevolve.operators.llm.metered import Abandoned, Meter, Metered
from kernelevolve.operators.llm.model_choice import ModelChoice, OpenModel, open_model
from kernelevolve.operators.llm.prices import known_price
from kernelevolve.operators.llm.settings import WritingSettings
from kernelevolve.operators.llm.tools import Tools
from kernelevolve.operators.operator import ProposalContext, ProposalLost, Retune
from kernelevolve.operators.purse import Purse, PurseEmpty
from kernelevolve.operators.workshop import Workshop

_MOST_LOST = 6
"""Conversations in a row that came to nothing: then it is the model, and further ones would as well."""
_SHORTEST_PROMPT = 4_000
_DISTILLING_SECONDS = 60.0
"""For the words about a run, which has ended by then."""


class LanguageModel:
    """Drafts, changes, mends and combines programs with one model."""

    arities: tuple[int, ...] = (0, 1, 2)

    def __init__(
        self,
        choice: ModelChoice,
        settings: WritingSettings,
        knowledge: KnowledgeBase,
        opened: OpenModel | None = None,
    ) -> None:
        """``opened`` is the model of this choice, if it is open already. Nothing is sent yet.

        Raises MissingTarget if the model's library or key is missing.
        """
        self.name = choice.operator
        self.weight = choice.weight
        self._choice, self._settings, self._knowledge = choice, settings, knowledge
        self._model = (opened or open_model(choice, request_seconds=settings.request_seconds)).model
        self._price = settings.price or known_price(choice)
        self._exhausted = ""
        self._lost = 0

    def exhausted(self) -> str:
        """Why this model is not asked any more; '' while it is."""
        return self._exhausted

    def propose(self, context: ProposalContext) -> Candidate | Retune | None:
        """A program, or numbers for a known one. Raises ProposalLost, with the reason, if nothing came of it.

        Whatever it ends in is in the workshop's log before this returns or raises.
        """
        workshop = context.workshop
        if workshop is None:
            raise ValueError("a language model needs a workshop")
        meter = self._meter(context.number, workshop.purse, workshop.log, workshop.seconds_left)
        found: Candidate | Retune | None = None
        reason = ""
        try:
            found = loop.run(self._converse(context, workshop, meter))
            self._lost = 0
        except PurseEmpty as empty:
            reason = self._exhausted = str(empty)
        except Abandoned:
            reason = self._exhausted = "the time of the search is over"
        except AnswerLost as lost:
            reason = lost.failure.sentence
            self._count_lost(reason, for_good=lost.failure.lasting)
        except AgentRunError as error:
            reason = f"no answer could be used: {' '.join(str(error).split())[:300]}"
            self._count_lost(reason)
        workshop.log.conclude(self._conclusion(context, meter, found, reason))
        if found is None:
            raise ProposalLost(f"{self._choice.label}: {reason}")
        return found

    def distil(self, facts: str, purse: Purse, log: ExchangeLog) -> str:
        """What a run has learnt, in words. Raises AgentRunError, AnswerLost or PurseEmpty if there are none."""
        meter = self._meter(AFTER_ALL, purse, log, lambda: _DISTILLING_SECONDS)
        agent = Agent(self._metered(meter, Purpose.DISTILL), instructions=rendered("distil"), retries=1)
        return loop.run(agent.run(facts)).output

    async def _converse(self, context: ProposalContext, workshop: Workshop, meter: Meter) -> Candidate | Retune:
        settings, brief = self._settings, workshop.brief
        if settings.analyse and brief.parents:
            analysis = await analyse(self._metered(meter, Purpose.ANALYSE), brief)
            if analysis is not None:
                pages = deep_search(self._knowledge, brief, analysis, len(brief.ancestors))
                brief = replace(brief, analysis=analysis, found=pages or brief.found)
        tools = Tools(workshop, self._knowledge, settings.actions)
        conversation = Conversation(
            self._metered(meter, Purpose.WRITE), meter, brief, context.tried, tools, settings.actions, settings.repairs
        )  # fmt: skip
        tokens = settings.prompt_tokens
        while True:
            try:
                return await conversation.write(tokens)
            except AnswerLost as lost:
                if lost.failure.kind is not FailureKind.TOO_LONG or tokens // 2 < _SHORTEST_PROMPT:
                    raise
                tokens //= 2  # The model's window is shorter than we thought; the prompt says what is left out.

    def _meter(self, number: int, purse: Purse, log: ExchangeLog, seconds_left: Callable[[], float]) -> Meter:
        settings = self._settings
        return Meter(
            number, purse, log, self._price, settings.request_seconds, settings.answer_tokens, settings.retry_seconds,
            seconds_left,
        )  # fmt: skip

    def _metered(self, meter: Meter, purpose: Purpose) -> Metered:
        return Metered(self._model, self._choice.label, meter, purpose)

    def _count_lost(self, reason: str, *, for_good: bool = False) -> None:
        self._lost += 1
        if for_good:
            self._exhausted = f"{self._choice.label} cannot be used: {reason}"
        elif self._lost >= _MOST_LOST:
            self._exhausted = f"{self._lost} conversations in a row with {self._choice.label} came to nothing: {reason}"

    def _conclusion(
        self, context: ProposalContext, meter: Meter, found: Candidate | Retune | None, reason: str
    ) -> Conclusion:
        nothing = Conclusion(
            proposal=context.number, operator=self.name, parents=tuple(p.node_id for p in context.parents),
            ending=Ending.NOTHING, reason=reason, exhausted=self._exhausted, tokens=meter.spent.tokens,
            dollars=meter.spent.dollars,
        )  # fmt: skip
        match found:
            case Candidate():
                own: dict[str, object] = {
                    "ending": Ending.CANDIDATE,
                    "source": found.source,
                    "language": found.language,
                }
            case Retune():
                own = {"ending": Ending.RETUNE, "node": found.node}
            case None:
                return nothing
        return nothing.model_copy(update={**own, "config": found.config})
