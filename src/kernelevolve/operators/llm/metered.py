"""Metered: a model whose every request is paid from a purse, recorded, and repeated when it fails in passing."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime

from pydantic_ai.messages import ModelMessage, ModelMessagesTypeAdapter, ModelResponse
from pydantic_ai.models import Model, ModelRequestParameters
from pydantic_ai.models.wrapper import WrapperModel
from pydantic_ai.settings import ModelSettings
from pydantic_core import to_json

from kernelevolve.operators.exchange import Exchange, ExchangeLog, Purpose
from kernelevolve.operators.llm.failure import AnswerLost, Failure, failure_of
from kernelevolve.operators.llm.prices import Price
from kernelevolve.operators.purse import Money, Promise, Purse, PurseEmpty
from kernelevolve.prompting import estimated_tokens

ATTEMPTS = 5
_LEAST_ANSWER = 1024
"""Tokens of an answer below which none is asked for: no kernel is that short."""


class Abandoned(Exception):
    """The search was stopped or its time is over; no further request is made."""


@dataclass(slots=True)
class Meter:
    """What the requests of one conversation share."""

    proposal: int
    purse: Purse
    log: ExchangeLog
    price: Price | None
    request_seconds: float
    answer_tokens: int
    retry_seconds: float
    seconds_left: Callable[[], float]
    spent: Money = field(default_factory=Money)
    requests: int = 0
    cut_off: bool = False
    """True if the last answer ended because it had become too long."""


class Metered(WrapperModel):
    """Wraps the model of one conversation, or of one part of it."""

    def __init__(self, wrapped: Model, label: str, meter: Meter, purpose: Purpose) -> None:
        super().__init__(wrapped)
        self._label, self._meter, self._purpose = label, meter, purpose

    async def request(
        self,
        messages: list[ModelMessage],
        model_settings: ModelSettings | None,
        model_request_parameters: ModelRequestParameters,
    ) -> ModelResponse:
        """The answer. Raises PurseEmpty before anything is sent, AnswerLost after the last failure, Abandoned."""
        meter = self._meter
        ordinal = meter.requests
        meter.requests += 1
        asked = _as_json(messages, model_request_parameters)
        for attempt in range(1, ATTEMPTS + 1):
            if meter.seconds_left() <= 0:
                raise Abandoned
            promise, answer_tokens = self._promise(estimated_tokens(asked))
            settings: ModelSettings = {**(model_settings or {}), "max_tokens": answer_tokens}
            at, start = datetime.now(UTC), time.monotonic()
            response, failure = await self._asked(messages, settings, model_request_parameters)
            money = Money() if response is None else self._cost(asked, response)
            meter.log.append(Exchange(
                proposal=meter.proposal, ordinal=ordinal, attempt=attempt, purpose=self._purpose, model=self._label,
                request=asked, at=at, seconds=time.monotonic() - start,
                response=None if response is None else _response_json(response),
                failure="" if failure is None else failure.kind, detail="" if failure is None else failure.detail,
                input_tokens=money.input_tokens, output_tokens=money.output_tokens, dollars=money.dollars,
            ))  # fmt: skip
            meter.purse.settle(promise, money)
            meter.spent += money
            if response is not None:
                meter.cut_off = response.finish_reason == "length"
                return response
            assert failure is not None
            if not failure.passing or attempt == ATTEMPTS:
                raise AnswerLost(failure)
            await self._pause(failure.delay(attempt, meter.retry_seconds))
        raise AssertionError("the loop ends by return or raise")

    def _cost(self, asked: str, response: ModelResponse) -> Money:
        """What an answer cost. A provider that does not say is taken to have counted as we estimate."""
        given, made = response.usage.input_tokens, response.usage.output_tokens
        if not given and not made:
            given, made = estimated_tokens(asked), estimated_tokens(_response_json(response))
        price = self._meter.price
        return Money(1, given, made, price.dollars(given, made) if price else 0.0)

    async def _asked(
        self, messages: list[ModelMessage], settings: ModelSettings, parameters: ModelRequestParameters
    ) -> tuple[ModelResponse | None, Failure | None]:
        try:
            async with asyncio.timeout(min(self._meter.request_seconds, self._meter.seconds_left())):
                return await self.wrapped.request(messages, settings, parameters), None
        except Exception as error:
            return None, failure_of(error)

    def _promise(self, question_tokens: int) -> tuple[Promise, int]:
        """Set money aside for question and answer; an answer may be shorter when little is left."""
        meter, answer = self._meter, self._meter.answer_tokens
        while True:
            dollars = meter.price.dollars(question_tokens, answer) if meter.price else 0.0
            try:
                return meter.purse.promise(question_tokens + answer, dollars), answer
            except PurseEmpty:
                if answer <= _LEAST_ANSWER:
                    raise
                answer = max(_LEAST_ANSWER, answer // 2)

    async def _pause(self, seconds: float) -> None:
        until = time.monotonic() + seconds
        while (left := until - time.monotonic()) > 0:
            if self._meter.seconds_left() <= 0:
                raise Abandoned
            await asyncio.sleep(min(left, 0.2))


def _as_json(messages: list[ModelMessage], parameters: ModelRequestParameters) -> str:
    tools = [
        {"name": tool.name, "description": tool.description, "parameters": tool.parameters_json_schema}
        for tool in (*parameters.function_tools, *parameters.output_tools)
    ]
    return to_json({"messages": ModelMessagesTypeAdapter.dump_python(messages, mode="json"), "tools": tools}).decode()


def _response_json(response: ModelResponse) -> str:
    return ModelMessagesTypeAdapter.dump_json([response]).decode()
