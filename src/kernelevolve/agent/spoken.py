"""Spoken: what a language model was asked and what it answered in the end, read from a run's recording."""

from __future__ import annotations

import json
from dataclasses import dataclass

from kernelevolve.operators.exchange import Exchange, Purpose
from kernelevolve.run import Run


@dataclass(frozen=True, slots=True)
class Spoken:
    """The first word and the last of one conversation."""

    prompt: str
    answer: str


def spoken(run: Run, question: int) -> Spoken | None:
    """The conversation about a question; None if it was put to no model, or has no end."""
    written = [
        exchange
        for exchange in run.store.recordings.exchanges(run.id, question)
        if exchange.purpose is Purpose.WRITE and exchange.response is not None
    ]
    if not written:
        return None
    # A question that was too long was put again, more briefly: the last beginning is the one that was answered.
    prompt = next((text for exchange in reversed(written) if (text := _prompt(exchange)) is not None), None)
    answer = _answer(written[-1])
    return None if prompt is None or not answer else Spoken(prompt, answer)


def _prompt(exchange: Exchange) -> str | None:
    """The text of the user's first message."""
    first = json.loads(exchange.request)["messages"][0]
    return next((str(part["content"]) for part in first["parts"] if part["part_kind"] == "user-prompt"), None)


def _answer(exchange: Exchange) -> str:
    assert exchange.response is not None
    (response,) = json.loads(exchange.response)
    return "".join(part["content"] for part in response["parts"] if part["part_kind"] == "text")
