"""How pydantic-ai and the SDKs below it behave where our code relies on it: retries, prices, recordings, threads."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from decimal import Decimal
from typing import Any

import pytest
from anthropic import AsyncAnthropic
from openai import AsyncOpenAI
from pydantic_ai import Agent, ModelMessage, ModelMessagesTypeAdapter, ModelRequest, ModelResponse
from pydantic_ai.direct import model_request
from pydantic_ai.exceptions import ModelAPIError, ModelRequestTimeout, UnexpectedModelBehavior
from pydantic_ai.models import Model
from pydantic_ai.models.anthropic import AnthropicModel
from pydantic_ai.models.function import AgentInfo, FunctionModel
from pydantic_ai.models.openai import OpenAIChatModel
from pydantic_ai.providers.anthropic import AnthropicProvider
from pydantic_ai.providers.openai import OpenAIProvider
from pydantic_ai.settings import ModelSettings

from scripted import (
    Late,
    Message,
    Received,
    ScriptedServer,
    Usage,
    empty,
    malformed_arguments,
    message,
    rate_limited,
    server_error,
    tool_call,
    unknown_tool,
)
from scripted.clients import KEY, OPENAI_NAME, anthropic_model, model_of, openai_model

PROVIDERS = ("openai", "anthropic")
PROMPT: list[ModelMessage] = [ModelRequest.user_text_prompt("q")]
MAKE: dict[str, Callable[..., Model]] = {"openai": openai_model, "anthropic": anthropic_model}


async def one(model: Model, settings: ModelSettings | None = None) -> ModelResponse:
    async with model:
        return await model_request(model, PROMPT, model_settings=settings)


# Retries.


@pytest.mark.parametrize("provider", PROVIDERS)
@pytest.mark.parametrize("settings, requests", [(None, 3), (ModelSettings(max_retries=0), 1)])
def test_the_sdk_sends_a_failed_request_three_times_unless_told_otherwise(
    provider: str, settings: ModelSettings | None, requests: int
) -> None:
    with ScriptedServer([rate_limited(retry_after=0.001)] * 3) as server, pytest.raises(ModelAPIError):
        asyncio.run(one(MAKE[provider](server.url, settings=settings)))
    assert len(server.requests) == requests


def test_retries_can_be_turned_off_in_a_client_of_ours() -> None:
    async def ask(url: str) -> None:
        async with (
            AsyncOpenAI(base_url=f"{url}/v1", api_key=KEY, max_retries=0) as openai,
            AsyncAnthropic(base_url=url, api_key=KEY, max_retries=0) as anthropic,
        ):
            models: tuple[Model, ...] = (
                OpenAIChatModel("m", provider=OpenAIProvider(openai_client=openai)),
                AnthropicModel("m", provider=AnthropicProvider(anthropic_client=anthropic)),
            )
            for model in models:
                with pytest.raises(ModelAPIError):
                    await model_request(model, PROMPT)

    with ScriptedServer([server_error()] * 2) as server:
        asyncio.run(ask(server.url))
    assert len(server.requests) == 2


@pytest.mark.parametrize(
    "useless", [empty(), malformed_arguments(), unknown_tool()], ids=["empty", "malformed", "unknown"]
)
@pytest.mark.parametrize("retries, requests", [(None, 2), (0, 1)])
def test_an_agent_asks_again_by_itself_after_a_useless_answer(
    useless: Message, retries: int | None, requests: int
) -> None:
    async def ask(url: str) -> None:
        agent = Agent(openai_model(url)) if retries is None else Agent(openai_model(url), retries=retries)

        @agent.tool_plain
        def add(a: int, b: int) -> int:
            return a + b

        async with agent:
            with pytest.raises(UnexpectedModelBehavior):
                await agent.run("q")

    with ScriptedServer([useless] * 2) as server:
        asyncio.run(ask(server.url))
    assert len(server.requests) == requests


@pytest.mark.parametrize("provider", PROVIDERS)
def test_a_deadline_over_all_attempts_is_a_setting_of_its_own(provider: str) -> None:
    with ScriptedServer([Late()]) as server, pytest.raises(ModelRequestTimeout) as caught:
        asyncio.run(one(model_of(provider, server.url), ModelSettings(request_timeout=0.2)))
    assert (caught.value.timeout, caught.value.setting) == (0.2, "request_timeout")


@pytest.mark.parametrize("settings, streamed", [({}, True), ({"max_tokens": 21_333}, False)])
def test_anthropic_streams_behind_the_scenes(settings: ModelSettings, streamed: bool) -> None:
    """A request with a timeout and without max_tokens is a stream, which fails in other ways (see "wrong shape")."""
    with ScriptedServer([message("x")]) as server:
        asyncio.run(one(anthropic_model(server.url), {"timeout": 30.0, **settings}))
    assert server.requests[0].stream == streamed


# Prices.


def test_a_response_has_a_price_by_name_of_provider_and_model_whatever_the_url() -> None:
    with ScriptedServer([message("x", usage=Usage(1000, 1000, cached_tokens=500))]) as server:
        response = asyncio.run(one(openai_model(server.url)))
    price = response.cost()
    assert (price.model.id, price.provider.id) == (OPENAI_NAME, "openai")
    assert isinstance(price.total_price, Decimal) and price.total_price > 0
    assert price.total_price == price.input_price + price.output_price
    assert response.usage.cost is None, "only an agent writes it there"


@pytest.mark.parametrize(
    "name, usage, error, words",
    [("no-such-model", Usage(), LookupError, "Unable to find model"), (OPENAI_NAME, None, ValueError, "omitted usage")],
)
def test_what_has_no_price(name: str, usage: Usage | None, error: type[Exception], words: str) -> None:
    with ScriptedServer([message("x", usage=usage)]) as server:
        response = asyncio.run(one(openai_model(server.url, name=name)))
    with pytest.raises(error, match=words):
        response.cost()


def test_an_agent_does_not_mind_what_has_no_price() -> None:
    async def ask(url: str) -> None:
        async with Agent(openai_model(url, name="no-such-model")) as agent:
            result = await agent.run("q")
            assert result.usage.cost is None and result.usage.input_tokens == 10

    with ScriptedServer([message("x")]) as server:
        asyncio.run(ask(server.url))


# Recordings.


@pytest.mark.parametrize("provider", [*PROVIDERS, "google"])
def test_a_recorded_response_replays_to_an_equal_one(provider: str) -> None:
    """Once through JSON is not yet the identity, since OpenAI's details hold a datetime; from there on it is."""

    def recorded(messages: list[ModelMessage]) -> list[ModelMessage]:
        return ModelMessagesTypeAdapter.validate_json(ModelMessagesTypeAdapter.dump_json(messages))

    with ScriptedServer([tool_call("add", {"a": 1, "b": 2}, text="let me see")]) as server:
        live: list[ModelMessage] = [asyncio.run(one(model_of(provider, server.url)))]
    kept = recorded(live)
    assert (kept == live) == (provider != "openai")
    assert recorded(kept) == kept
    assert ModelMessagesTypeAdapter.dump_json(kept) == ModelMessagesTypeAdapter.dump_json(live)


def test_an_agent_runs_on_recorded_responses() -> None:
    def add(a: int, b: int) -> int:
        return a + b

    with ScriptedServer([tool_call("add", {"a": 1, "b": 2}), message("3")]) as server:

        async def live() -> list[ModelMessage]:
            async with Agent(openai_model(server.url), tools=[add]) as agent:
                return (await agent.run("q")).new_messages()

        said = asyncio.run(live())
    kept = ModelMessagesTypeAdapter.validate_json(ModelMessagesTypeAdapter.dump_json(said))
    answers = (response for response in kept if isinstance(response, ModelResponse))

    def answer(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        return next(answers)

    assert asyncio.run(Agent(FunctionModel(answer), tools=[add]).run("q")).output == "3"


# Threads.

THREADS = 4


@contextmanager
def simultaneous() -> Iterator[ScriptedServer]:
    """A server that answers when all threads have asked, so that they are certainly in it at once."""
    together = threading.Barrier(THREADS)

    def script(request: Received) -> Message:
        together.wait(30)
        return message("x")

    with ScriptedServer(script) as server:
        yield server


def in_threads(work: Callable[[int], Any]) -> list[Any]:
    with ThreadPoolExecutor(THREADS) as pool:
        return list(pool.map(work, range(THREADS)))


@pytest.mark.parametrize("provider", PROVIDERS)
def test_a_model_that_is_entered_works_in_one_loop_after_another(provider: str) -> None:
    """`direct.model_request` looks after no client: not entered, the model keeps connections of a loop that is closed."""
    with ScriptedServer([message("x")] * 3) as server:
        model = model_of(provider, server.url)
        assert [asyncio.run(one(model)).text for _ in range(3)] == ["x"] * 3


@pytest.mark.parametrize("provider", PROVIDERS)
def test_threads_with_a_model_each(provider: str) -> None:
    """A model, its HTTP client and its event loop belong together: made, used and closed in one `asyncio.run`."""
    with simultaneous() as server:

        async def ask() -> str:
            async with Agent(model_of(provider, server.url)) as agent:
                return (await agent.run("q")).output

        assert in_threads(lambda _: [asyncio.run(ask()) for _ in range(2)]) == [["x", "x"]] * THREADS


@pytest.mark.parametrize("provider", PROVIDERS)
def test_threads_that_share_a_model_share_an_event_loop(provider: str) -> None:
    """Where one model is wanted for all (one pool of connections), one loop in the background runs all requests.

    With a loop in every thread the pool hands out connections of other threads' loops. What comes of it depends on the
    moment: a bare RuntimeError, a ModelConnectionError, a wait without end or nothing, so that no test can hold it.
    """
    loop = asyncio.new_event_loop()
    background = threading.Thread(target=loop.run_forever)
    background.start()
    with simultaneous() as server:
        agent = Agent(model_of(provider, server.url))

        def ask(_: int) -> str:
            return asyncio.run_coroutine_threadsafe(agent.run("q"), loop).result(60).output

        asyncio.run_coroutine_threadsafe(agent.__aenter__(), loop).result(60)
        try:
            assert in_threads(lambda n: [ask(n) for _ in range(2)]) == [["x", "x"]] * THREADS
        finally:
            asyncio.run_coroutine_threadsafe(agent.__aexit__(None, None, None), loop).result(60)
            loop.call_soon_threadsafe(loop.stop)
            background.join()
            loop.close()
