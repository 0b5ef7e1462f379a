"""Prompt: the sections of a context laid out within a token budget, with a record of what had to go."""

from __future__ import annotations

from dataclasses import dataclass

from kernelevolve.prompting.context import PromptContext
from kernelevolve.prompting.section import Cut, estimated_tokens, fit
from kernelevolve.prompting.sections import sections_of

DEFAULT_TOKENS = 24_000
_FOR_CUTS = 400
"""Tokens kept for the list of what was cut."""


@dataclass(frozen=True, slots=True)
class Prompt:
    """What a writer is given."""

    text: str
    tokens: int
    """Estimated: no tokenizer is known here."""
    cut: tuple[Cut, ...]
    """What was left out to stay within the budget; the text says the same at its end."""


def assemble(context: PromptContext, *, tokens: int = DEFAULT_TOKENS) -> Prompt:
    """The prompt of a context in at most ``tokens`` tokens (estimated).

    Raises InvalidRequest if that is too few for what every prompt must say.
    """
    texts, cuts = fit(sections_of(context), max(1, tokens - _FOR_CUTS))
    if cuts:
        listed = "\n".join(f"- {cut.section}: {cut.what}" for cut in cuts)
        texts.append(f"## Left out\n\nTo keep this within {tokens} tokens (estimated), it does not show:\n{listed}")
    text = "\n\n".join(texts) + "\n"
    return Prompt(text, estimated_tokens(text), cuts)
