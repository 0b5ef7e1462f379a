"""A search that a scripted language model writes for: a real server, a scripted judge."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from engine.doubles import (
    BASE,
    LENGTH,
    PROBLEM,
    Recorder,
    ScriptedJudge,
    ScriptedTarget,
    program,
    settings,
)
from kernelevolve.ensemble import operators_of
from kernelevolve.operators.exchange import Exchange, Purpose
from kernelevolve.operators.llm.model_choice import parse_model
from kernelevolve.operators.llm.prices import Price
from kernelevolve.operators.llm.settings import WritingSettings
from kernelevolve.search.engine import Engine
from kernelevolve.search.ledger import Budget
from kernelevolve.search.policies import POLICIES
from kernelevolve.search.settings import SearchSettings
from kernelevolve.store import RunRecord, Store
from scripted import (
    Answer,
    Message,
    Received,
    Usage,
    message,
    tool_call,
)

PRICE = Price(1.0, 10.0)
USAGE = Usage(input_tokens=1000, output_tokens=200)


def written(number: int, usage: Usage = USAGE) -> Message:
    """An answer with the program of this number."""
    return message(f"Here it is.\n\n```python\n{source_of(number)}\n```\n", usage=usage)


def source_of(number: int) -> str:
    """A program with the number in base 4 as its digits, and with a word that says that it differs in more than numbers."""
    digits = tuple(number // BASE**place % BASE for place in range(LENGTH))
    return f'{program(digits).source}\nTHREADS = 64\nKIND = "kind {number}"\n'


def programs(first: int = 0) -> Iterator[Message]:
    number = first
    while True:
        yield written(number)
        number += 1


@dataclass
class Script:
    """Answers some requests as a test says, and all others with programs."""

    special: dict[int, Answer] = field(default_factory=dict)
    analysis: str = '{"bottleneck": "memory", "cause": "it reads twice", "questions": ["tiling"]}'
    asked: int = 0
    _programs: Iterator[Message] = field(default_factory=programs)

    def __call__(self, request: Received) -> Answer:
        tools = [tool.get("function", tool)["name"] for tool in request.body.get("tools", ())]
        if "final_result" in tools:
            return tool_call("final_result", self.analysis)
        number, self.asked = self.asked, self.asked + 1
        return self.special.get(number) or next(self._programs)


@dataclass
class Search:
    """A run that only a language model proposes for."""

    store: Store
    record: RunRecord
    chosen: SearchSettings
    judge: ScriptedJudge
    heard: Recorder

    def go(self) -> None:
        operators, retriever = operators_of(self.chosen)
        policy = POLICIES.get(self.chosen.policy)()
        Engine(
            self.store, self.record, self.chosen, policy, operators, ScriptedTarget(), self.judge, [self.heard], retriever
        ).run()  # fmt: skip

    def exchanges(self, purpose: Purpose = Purpose.WRITE) -> list[Exchange]:
        return [e for e in self.store.recordings.exchanges(self.record.id) if e.purpose is purpose]

    def nodes(self) -> list[str]:
        return [stored.node.operator for stored in self.store.nodes(self.record.id)]

    def check_ledger(self) -> None:
        """What the purse says is the sum of the recording, and every answer was counted as the server told."""
        exchanges = list(self.store.recordings.exchanges(self.record.id))
        money = self.store.recordings.money(self.record.id)
        assert money.tokens == sum(e.input_tokens + e.output_tokens for e in exchanges)
        assert money.requests == sum(e.response is not None for e in exchanges)
        last = [event.spent for event in self.heard.events if hasattr(event, "spent")][-1]
        assert last.money.tokens == money.tokens
        assert last.money.dollars == pytest.approx(money.dollars)
        assert last.tokens_in_flight == 0
        assert last.dollars_in_flight == 0


def begin(
    place: Path,
    url: str,
    *,
    evaluations: int = 4,
    tokens: int | None = None,
    dollars: float | None = None,
    provider: str = "openai",
    operators: tuple[str, ...] = ("llm",),
    models: tuple[str, ...] = (),
    **writing: object,
) -> Search:
    """A new run of the scripted problem. Its prompts are short, and failed requests are repeated at once."""
    path = "/v1" if provider == "openai" else ""
    named = models or (f"{provider}:scripted@{url}{path}",)
    given = {"price": PRICE, "retry_seconds": 0.0, "request_seconds": 5.0, "answer_tokens": 2000, **writing}
    chosen = settings(
        evaluations, operators=operators, quick_trials=0, full_trials=0, writing=WritingSettings(models=tuple(map(parse_model, named)), **given),
        budget=Budget(evaluations=evaluations, seconds=3600, tokens=tokens, dollars=dollars),
    )  # fmt: skip
    store = Store(place)
    record = store.create_run(PROBLEM, "cpu", device="scripted", settings=chosen.model_dump(mode="json"))
    return Search(store, record, chosen, ScriptedJudge(), Recorder())
