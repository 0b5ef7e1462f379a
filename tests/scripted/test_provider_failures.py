"""What pydantic-ai makes of everything that can go wrong: the table that whoever asks a model relies on.

A row is a failure, and what comes of it for OpenAI's and for Anthropic's format, asked in three ways: `direct` is one plain
request (`pydantic_ai.direct.model_request`), `stream` the same as a stream, `agent` is `Agent.run` with one tool and no retries of
its own. What comes is an exception, of exactly this class, or an answer with this finish reason: `direct` judges nothing that
has arrived in good order.
"""

from __future__ import annotations

import asyncio
from contextlib import nullcontext
from dataclasses import dataclass, field
from typing import Any

import pytest
from pydantic_ai import Agent, ModelRequest, ModelResponse
from pydantic_ai.direct import model_request, model_request_stream
from pydantic_ai.exceptions import (
    ContentFilterError,
    IncompleteToolCall,
    ModelAPIError,
    ModelAuthenticationError,
    ModelConnectionError,
    ModelContextWindowExceededError,
    ModelHTTPError,
    ModelNotFoundError,
    ModelOverloadedError,
    ModelQuotaExceededError,
    ModelRateLimitError,
    ModelServerError,
    ModelTimeoutError,
    ModelUnavailableError,
    OutputTokenLimitExceeded,
    UnexpectedModelBehavior,
)
from pydantic_ai.models import Model
from pydantic_ai.settings import ModelSettings

from scripted import (
    Answer,
    BrokenStream,
    ErrorInStream,
    Late,
    Reason,
    Reset,
    ScriptedServer,
    ToolCall,
    content_filtered,
    context_too_long,
    empty,
    malformed_arguments,
    no_json,
    overloaded,
    quota_exhausted,
    rate_limited,
    refusal,
    refusing,
    server_error,
    truncated,
    unauthorized,
    unavailable,
    unknown_model,
    unknown_tool,
    without_usage,
    wrong_shape,
)
from scripted.clients import model_of

Outcome = type[BaseException] | str | None
PROVIDERS = ("openai", "anthropic")
LONG = 30.0
# Below what Anthropic's SDK wants to have streamed: see test_anthropic_streams_behind_the_scenes.
SETTINGS = ModelSettings(max_tokens=1000, timeout=LONG, max_retries=0)


@dataclass(frozen=True)
class Row:
    name: str
    answer: Answer | None  # None: the connection is refused
    direct: tuple[Outcome, Outcome]  # OpenAI, Anthropic
    stream: tuple[Outcome, Outcome]
    agent: tuple[Outcome, Outcome]
    attributes: dict[str, Any] = field(default_factory=dict)


def same(name: str, answer: Answer | None, outcome: Outcome, **attributes: Any) -> Row:
    """Both providers, in every way."""
    pair = (outcome, outcome)
    return Row(name, answer, pair, pair, pair, attributes)


def judged(name: str, answer: Answer, finish: str, agent: Outcome) -> Row:
    """An answer in good order, which only the agent takes exception to."""
    return Row(name, answer, (finish, finish), (finish, finish), (agent, agent))


ROWS = [
    # Refused with a status.
    same("429 with Retry-After", rate_limited(retry_after=3), ModelRateLimitError, retry_after=3.0, status_code=429),
    same("429 without", rate_limited(), ModelRateLimitError, retry_after=None, status_code=429),
    same("quota exhausted", quota_exhausted(), ModelQuotaExceededError, retry_after=None),  # 429 and 400
    same("500", server_error(), ModelServerError, status_code=500),
    same("503", unavailable(retry_after=2), ModelUnavailableError, status_code=503, retry_after=2.0),
    same("overloaded", overloaded(), ModelOverloadedError),  # 503 with these words, and 529
    same("401", unauthorized(), ModelAuthenticationError, status_code=401),
    same("400 context length", context_too_long(), ModelContextWindowExceededError, status_code=400),
    same("404 unknown model", unknown_model(), ModelNotFoundError, status_code=404),
    # Lost on the way. None of these is a ModelHTTPError.
    same("timeout", Late(), ModelTimeoutError),
    same("reset in the body", Reset(), ModelConnectionError, phase="read"),
    same("connection refused", None, ModelConnectionError, phase="connect"),
    # Not what was asked for. Not everything is an exception of pydantic-ai.
    Row(
        "no JSON",
        no_json(),
        direct=(ModelAPIError, ModelAPIError),
        stream=(UnexpectedModelBehavior, UnexpectedModelBehavior),
        agent=(ModelAPIError, ModelAPIError),
    ),
    Row(
        "wrong shape",
        wrong_shape(),
        direct=(UnexpectedModelBehavior, TypeError),
        stream=(UnexpectedModelBehavior, UnexpectedModelBehavior),
        agent=(UnexpectedModelBehavior, TypeError),
    ),
    Row(
        "usage missing",
        without_usage(),
        direct=("stop", AttributeError),
        stream=("stop", AttributeError),
        agent=("stop", AttributeError),
    ),
    # In good order, and of no use.
    judged("refusal", refusal(), "content_filter", ContentFilterError),
    judged("content filter", content_filtered(), "content_filter", ContentFilterError),
    judged("content filter after some text", content_filtered("some"), "content_filter", "content_filter"),
    judged("truncated text", truncated("def f("), "length", "length"),
    judged("truncated before any text", truncated(""), "length", OutputTokenLimitExceeded),
    judged("truncated call", truncated("", call=ToolCall("add", '{"a": 1, "b"')), "length", IncompleteToolCall),
    judged("empty", empty(), "stop", UnexpectedModelBehavior),
    judged("malformed arguments", malformed_arguments(), "tool_call", UnexpectedModelBehavior),
    judged("unknown tool", unknown_tool(), "tool_call", UnexpectedModelBehavior),
]

# Streams that begin well.
BROKEN: list[tuple[str, Answer, tuple[Outcome, Outcome]]] = [
    ("reset", BrokenStream(how="reset"), (ModelConnectionError, ModelConnectionError)),
    ("closed", BrokenStream(how="close"), (ModelConnectionError, ModelConnectionError)),
    # Nobody says that this answer is not complete; for OpenAI it even has a finish reason.
    ("ended", BrokenStream(how="end"), ("stop", None)),
    ("500", ErrorInStream(Reason.SERVER), (ModelServerError, ModelServerError)),
    ("429", ErrorInStream(Reason.RATE_LIMIT), (ModelRateLimitError, ModelRateLimitError)),
    # OpenAI's words are looked for in a 503 only, and an event has no status.
    ("overloaded", ErrorInStream(Reason.OVERLOADED), (ModelServerError, ModelOverloadedError)),
]


async def direct(model: Model, settings: ModelSettings) -> ModelResponse:
    return await model_request(model, [ModelRequest.user_text_prompt("q")], model_settings=settings)


async def stream(model: Model, settings: ModelSettings) -> ModelResponse:
    prompt = [ModelRequest.user_text_prompt("q")]
    async with model_request_stream(model, prompt, model_settings=settings) as response:
        async for _ in response:
            pass
        return response.get()


async def agent(model: Model, settings: ModelSettings) -> ModelResponse:
    agent = Agent(model, retries=0)

    @agent.tool_plain
    def add(a: int, b: int) -> int:
        return a + b

    return (await agent.run("q", model_settings=settings)).response


WAYS = {"direct": direct, "stream": stream, "agent": agent}


def outcome_of(provider: str, way: str, answer: Answer | None) -> ModelResponse | BaseException:
    # Only who waits in vain is impatient, so that a busy machine changes nothing.
    settings: ModelSettings = {**SETTINGS, "timeout": 0.2 if isinstance(answer, Late) else LONG}

    async def ask(url: str) -> ModelResponse:
        async with model_of(provider, url) as model:
            return await WAYS[way](model, settings)

    with (
        refusing() if answer is None else nullcontext() as closed,
        ScriptedServer([answer] if answer else []) as server,
    ):
        try:
            return asyncio.run(ask(closed or server.url))
        except Exception as error:
            return error


def is_outcome(found: ModelResponse | BaseException, expected: Outcome) -> bool:
    if isinstance(found, ModelResponse):
        return found.finish_reason == expected
    # An error with a status is of a private class that has both the category and ModelHTTPError as bases.
    private = type(found).__mro__[1:] if isinstance(found, ModelHTTPError) else ()
    return type(found) is expected or (
        expected in private and type(found).__name__ == getattr(expected, "__name__", "")
    )


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("provider", PROVIDERS)
@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.name)
def test_failure(row: Row, provider: str, way: str) -> None:
    found = outcome_of(provider, way, row.answer)
    expected = getattr(row, way)[PROVIDERS.index(provider)]
    assert is_outcome(found, expected), f"{way}: {found!r}"
    for name, value in row.attributes.items():
        assert getattr(found, name) == value


@pytest.mark.parametrize("provider", PROVIDERS)
@pytest.mark.parametrize("name, answer, outcomes", BROKEN, ids=[name for name, _, _ in BROKEN])
def test_stream_that_begins_well(name: str, answer: Answer, outcomes: tuple[Outcome, Outcome], provider: str) -> None:
    found = outcome_of(provider, "stream", answer)
    assert is_outcome(found, outcomes[PROVIDERS.index(provider)]), repr(found)
    assert getattr(found, "in_stream", False) == isinstance(answer, ErrorInStream)


@pytest.mark.parametrize("provider", PROVIDERS)
def test_refusal_in_the_response(provider: str) -> None:
    found = outcome_of(provider, "direct", refusal("I cannot help with that."))
    assert isinstance(found, ModelResponse) and found.parts == [] and found.text is None
    assert found.provider_details and found.provider_details["refusal"] == "I cannot help with that."
    assert (found.usage.input_tokens, found.usage.output_tokens) == (10, 5), "a refusal is paid for"
    raised = outcome_of(provider, "agent", refusal("I cannot help with that."))
    assert isinstance(raised, ContentFilterError) and "I cannot help with that." in str(raised)
    assert raised.body and '"output_tokens": 5' in raised.body, "the response travels in the exception, as JSON"


@pytest.mark.parametrize("provider", PROVIDERS)
def test_truncated_answer_in_the_response(provider: str) -> None:
    found = outcome_of(provider, "direct", truncated("def f("))
    assert isinstance(found, ModelResponse)
    assert (found.text, found.finish_reason, found.state) == ("def f(", "length", "complete")


@pytest.mark.parametrize("provider", PROVIDERS)
def test_what_an_error_with_a_status_knows(provider: str) -> None:
    found = outcome_of(provider, "direct", rate_limited(retry_after=3))
    assert isinstance(found, ModelHTTPError) and isinstance(found, ModelRateLimitError)
    assert found.headers and found.headers["retry-after"] == "3" and found.retry_after == 3.0
    assert found.provider_error_type == {"openai": "requests", "anthropic": "rate_limit_error"}[provider]
    assert found.provider_error_code == {"openai": "rate_limit_exceeded", "anthropic": None}[provider]


def test_usage_that_is_missing_is_marked() -> None:
    found = outcome_of("openai", "direct", without_usage())
    assert isinstance(found, ModelResponse) and found.usage.unmeasured_requests == 1
    assert (found.usage.input_tokens, found.usage.output_tokens) == (0, 0)
