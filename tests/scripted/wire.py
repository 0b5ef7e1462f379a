"""What a wire format is: how an answer and an error look as JSON and as server-sent events."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any, Protocol

from scripted.answers import Message
from scripted.failures import Reason
from scripted.received import Received

Body = dict[str, Any]


class Wire(Protocol):
    def speaks(self, path: str) -> bool:
        """Whether a request at this path is of this format."""
        ...

    def plain(self, message: Message, request: Received) -> Body: ...

    def stream(self, message: Message, request: Received) -> list[bytes]:
        """The events, each complete with its blank line."""
        ...

    def error(self, reason: Reason, request: Received) -> tuple[int, Body]: ...

    def error_event(self, reason: Reason, request: Received) -> bytes: ...


def event(data: Body | str, *, name: str | None = None) -> bytes:
    text = data if isinstance(data, str) else json.dumps(data)
    return (f"event: {name}\n" if name else "").encode() + f"data: {text}\n\n".encode()


def pieces(text: str) -> Iterable[str]:
    """A text in the pieces in which a model would stream it."""
    words = text.split(" ")
    return [word if number == 0 else " " + word for number, word in enumerate(words)] if text else []


def halves(text: str) -> tuple[str, str]:
    """Arguments are streamed in pieces that are no JSON by themselves."""
    return text[: len(text) // 2], text[len(text) // 2 :]
