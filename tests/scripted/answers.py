"""What a model answers, without a word about the wire: one record that every provider's format can carry."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any


class Finish(StrEnum):
    """Why the model stopped. Each wire format has its own words for it."""

    STOP = "stop"
    TOOL_CALLS = "tool calls"
    LENGTH = "length"
    CONTENT_FILTER = "content filter"


class Answer:
    """Anything that a script may hold: a `Message`, or one of the failures."""


@dataclass(frozen=True)
class Usage:
    """Tokens as a provider counts them; `input_tokens` includes the cached ones."""

    input_tokens: int = 10
    output_tokens: int = 5
    cached_tokens: int = 0


@dataclass(frozen=True)
class ToolCall:
    """A call of a tool. Arguments that are a string are sent as they are, also when they are no JSON."""

    name: str
    arguments: Mapping[str, Any] | str
    id: str = "call_1"

    @property
    def arguments_text(self) -> str:
        return self.arguments if isinstance(self.arguments, str) else json.dumps(dict(self.arguments))

    @property
    def arguments_value(self) -> Any:
        """For formats in which arguments are an object: what is no JSON can only be sent as what it is, a string."""
        try:
            return json.loads(self.arguments_text)
        except ValueError:
            return self.arguments_text


@dataclass(frozen=True)
class Message(Answer):
    """A complete answer of the model. Without `model` it carries the name that was asked for."""

    text: str = ""
    tool_calls: tuple[ToolCall, ...] = ()
    finish: Finish = Finish.STOP
    refusal: str | None = None
    usage: Usage | None = Usage()
    model: str | None = None


def message(text: str, *, usage: Usage | None = Usage(), model: str | None = None) -> Message:
    return Message(text, usage=usage, model=model)


def tool_call(name: str, arguments: Mapping[str, Any] | str = "{}", *, text: str = "", id: str = "call_1") -> Message:
    return Message(text, (ToolCall(name, arguments, id),), Finish.TOOL_CALLS)
