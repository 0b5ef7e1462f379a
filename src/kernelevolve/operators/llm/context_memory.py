"""Context memory and deep search: a diagnosis before anything is written, and what the knowledge base has for it.

The two helpers of the published system: the first turns evidence into a structured diagnosis, the second retrieves with
that diagnosis instead of with the problem's name.
"""

from __future__ import annotations

from pydantic_ai import Agent
from pydantic_ai.exceptions import UnexpectedModelBehavior
from pydantic_ai.models import Model

from kernelevolve.knowledge import KnowledgeBase
from kernelevolve.operators.llm.instructions import rendered
from kernelevolve.profilers.diagnosis import Bottleneck
from kernelevolve.prompting import Analysis, Found, PromptContext, assemble

_PROMPT_TOKENS = 12_000
_QUESTIONS, _PAGES = 3, 5


async def analyse(model: Model, context: PromptContext) -> Analysis | None:
    """The diagnosis of the context's first parent; None if the model gives none in the form that was asked for.

    What a request can raise (``Metered.request``), this raises too.
    """
    agent = Agent(model, output_type=Analysis, instructions=rendered("analyse"), retries=1)
    try:
        found = await agent.run(assemble(context, tokens=_PROMPT_TOKENS).text)
    except UnexpectedModelBehavior:
        return None
    return found.output


def deep_search(knowledge: KnowledgeBase, context: PromptContext, analysis: Analysis, depth: int) -> list[Found]:
    """Pages for the questions of a diagnosis, those first that several of them find."""
    language = context.parents[0].candidate.language if context.parents else None
    scores: dict[str, float] = {}
    pages: dict[str, Found] = {}
    for question in analysis.questions[:_QUESTIONS] or [analysis.cause]:
        found = knowledge.retrieve(
            question, target=context.target, language=None if language == "pytorch" else language,
            bottleneck=None if analysis.bottleneck is Bottleneck.UNKNOWN else analysis.bottleneck.value,
            depth=depth, limit=_PAGES,
        )  # fmt: skip
        for rank, page in enumerate(found):
            # Reciprocal rank fusion (Cormack et al. 2009): ranks can be added up, scores of different questions cannot.
            scores[page.page_id] = scores.get(page.page_id, 0.0) + 1 / (60 + rank)
            pages[page.page_id] = page
    best = sorted(scores, key=lambda page_id: (-scores[page_id], page_id))
    return [pages[page_id] for page_id in best[:_PAGES]]
