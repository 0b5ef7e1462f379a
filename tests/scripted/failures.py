"""What can go wrong between a model and whoever asks it, as answers of a script."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Literal

from scripted.answers import Answer, Finish, Message, ToolCall, Usage


class Reason(StrEnum):
    """Why a provider refuses a request. The wire formats name it, and say with which status it comes."""

    RATE_LIMIT = "rate limit"
    QUOTA = "quota exhausted"
    SERVER = "server error"
    UNAVAILABLE = "unavailable"
    OVERLOADED = "overloaded"
    AUTHENTICATION = "authentication"
    CONTEXT = "context length exceeded"
    UNKNOWN_MODEL = "unknown model"


@dataclass(frozen=True)
class HttpError(Answer):
    """An error with the status, type, code and words of the provider that is asked."""

    reason: Reason
    retry_after: float | None = None


@dataclass(frozen=True)
class Raw(Answer):
    """Exactly these bytes."""

    body: bytes
    content_type: str = "application/json"
    status: int = 200


@dataclass(frozen=True)
class Late(Answer):
    """The answer comes after so many seconds, or when the server closes: no test waits for it longer than its client."""

    seconds: float = 30.0
    answer: Answer = field(default_factory=Message)


@dataclass(frozen=True)
class Reset(Answer):
    """The connection is reset when half of the body has been sent."""

    answer: Message = field(default_factory=lambda: Message("an answer that nobody reads to its end " * 20))


@dataclass(frozen=True)
class BrokenStream(Answer):
    """A stream that ends after so many events.

    `reset` and `close` are seen by the client's transport. After `end` everything is in order but for the missing
    events: only whoever knows the format can see that the answer is not complete.
    """

    answer: Message = field(default_factory=lambda: Message("one two three four five six"))
    events: int = 4
    how: Literal["reset", "close", "end"] = "close"


@dataclass(frozen=True)
class ErrorInStream(Answer):
    """A stream that has begun well and then says that there is an error."""

    reason: Reason = Reason.OVERLOADED
    answer: Message = field(default_factory=lambda: Message("one two three four five six"))
    events: int = 4


def rate_limited(*, retry_after: float | None = None) -> HttpError:
    return HttpError(Reason.RATE_LIMIT, retry_after)


def quota_exhausted() -> HttpError:
    return HttpError(Reason.QUOTA)


def server_error() -> HttpError:
    return HttpError(Reason.SERVER)


def unavailable(*, retry_after: float | None = None) -> HttpError:
    return HttpError(Reason.UNAVAILABLE, retry_after)


def overloaded() -> HttpError:
    return HttpError(Reason.OVERLOADED)


def unauthorized() -> HttpError:
    return HttpError(Reason.AUTHENTICATION)


def context_too_long() -> HttpError:
    return HttpError(Reason.CONTEXT)


def unknown_model() -> HttpError:
    return HttpError(Reason.UNKNOWN_MODEL)


def no_json() -> Raw:
    """The page of a proxy that is declared to be JSON."""
    return Raw(b"<html><body>502 Bad Gateway</body></html>")


def wrong_shape() -> Raw:
    """JSON, with nothing in it that the format asks for."""
    return Raw(b'{"answer": 42}')


def refusal(text: str = "I cannot help with that.") -> Message:
    return Message(refusal=text, finish=Finish.CONTENT_FILTER)


def content_filtered(text: str = "") -> Message:
    """The provider's filter ended the answer. The Anthropic format has no word for it but `refusal`."""
    return Message(text, finish=Finish.CONTENT_FILTER)


def truncated(text: str = "def kernel(", *, call: ToolCall | None = None) -> Message:
    """The answer ended at the limit of output tokens, in the middle of the text or of a call."""
    return Message(text, (call,) if call else (), Finish.LENGTH)


def empty() -> Message:
    return Message(usage=Usage(output_tokens=0))


def malformed_arguments(name: str = "add") -> Message:
    return Message(tool_calls=(ToolCall(name, '{"a": 1, "b": '),), finish=Finish.TOOL_CALLS)


def unknown_tool(name: str = "launch_missiles") -> Message:
    return Message(tool_calls=(ToolCall(name, {}),), finish=Finish.TOOL_CALLS)


def without_usage(text: str = "an answer") -> Message:
    return Message(text, usage=None)


@contextmanager
def refusing() -> Iterator[str]:
    """The URL of a port that refuses connections.

    The port is bound and does not listen, so that nobody else gets it meanwhile.
    """
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))
        yield f"http://127.0.0.1:{bound.getsockname()[1]}"
