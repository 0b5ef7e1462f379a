"""A conversation with a language model, as the terminal shows it: what was asked, answered, and paid."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from typing import Any

from rich.console import Console
from rich.text import Text

from kernelevolve.operators.exchange import Exchange


def print_conversation(console: Console, exchanges: Iterable[Exchange]) -> None:
    """Every request with the messages that it has more than the one before it, and what came back."""
    seen = 0
    for exchange in exchanges:
        console.print(Text(_heading(exchange), "bold"), soft_wrap=True)
        messages = json.loads(exchange.request)["messages"]
        fresh = messages[seen:] if exchange.ordinal and len(messages) > seen else messages
        if exchange.attempt == 1:
            for message in fresh:
                for who, text in _parts(message):
                    console.print(Text(f"[{who}]", "dim"))
                    console.print(Text(text), soft_wrap=True)
        if exchange.response is None:
            console.print(Text(f"{exchange.failure}: {exchange.detail}", "yellow"), soft_wrap=True)
            continue
        seen = len(messages) + 1
        for who, text in _parts(json.loads(exchange.response)[0]):
            console.print(Text(f"[{who}]", "cyan"))
            console.print(Text(text), soft_wrap=True)


def _heading(exchange: Exchange) -> str:
    cost = f"{exchange.input_tokens} + {exchange.output_tokens} tokens, {exchange.dollars:.4f} dollars"
    again = f", attempt {exchange.attempt}" if exchange.attempt > 1 else ""
    asked = f"{exchange.purpose}, request {exchange.ordinal + 1}{again}: {exchange.model}"
    return f"── {asked}, {exchange.seconds:.1f} s, {cost}"


def _parts(message: dict[str, Any]) -> Iterator[tuple[str, str]]:
    for part in message["parts"]:
        kind = part["part_kind"]
        if kind == "tool-call":
            arguments = part["args"]
            yield f"calls {part['tool_name']}", arguments if isinstance(arguments, str) else json.dumps(arguments)
        elif kind == "tool-return":
            yield f"{part['tool_name']} returns", str(part["content"])
        else:
            yield kind, str(part.get("content", ""))
