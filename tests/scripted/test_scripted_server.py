"""The scripted server is faithful: the providers' own clients and pydantic-ai take it for the real thing."""

from __future__ import annotations

import asyncio
import json
import threading
import urllib.error
import urllib.request
from collections.abc import Awaitable, Callable
from typing import Any

import openai
import pytest
from anthropic import AsyncAnthropic
from anthropic.types import TextBlock, ToolUseBlock
from openai import AsyncOpenAI
from pydantic_ai import Agent, ModelRequest, TextPart, ToolCallPart, ToolDefinition
from pydantic_ai.direct import model_request, model_request_stream
from pydantic_ai.models import ModelRequestParameters

from scripted import (
    Late,
    Received,
    ScriptedServer,
    ToolCall,
    Usage,
    message,
    rate_limited,
    refusing,
    server_error,
    tool_call,
)
from scripted.answers import Finish, Message
from scripted.clients import KEY, OPENAI_NAME, model_of

PROVIDERS = ("openai", "anthropic", "google")
ADD = ToolDefinition(
    name="add",
    parameters_json_schema={
        "type": "object",
        "properties": {"a": {"type": "integer"}, "b": {"type": "integer"}},
        "required": ["a", "b"],
    },
)
ADD_TOOL: Any = {"name": "add", "description": "adds", "input_schema": ADD.parameters_json_schema}


def test_openai_sdk() -> None:
    async def ask(url: str) -> None:
        async with AsyncOpenAI(base_url=f"{url}/v1", api_key=KEY, max_retries=0) as client:
            asked: Any = {"model": OPENAI_NAME, "messages": [{"role": "user", "content": "q"}]}
            plain = await client.chat.completions.create(**asked)
            assert plain.choices[0].message.content == "a b" and plain.choices[0].finish_reason == "stop"
            assert plain.usage and (plain.usage.prompt_tokens, plain.usage.completion_tokens) == (10, 5)
            called = await client.chat.completions.create(**asked)
            calls: Any = called.choices[0].message.tool_calls
            assert called.choices[0].finish_reason == "tool_calls"
            assert json.loads(calls[0].function.arguments) == {"a": 1, "b": 2}
            stream = await client.chat.completions.create(**asked, stream=True, stream_options={"include_usage": True})
            chunks = [chunk async for chunk in stream]
            assert "".join(c.choices[0].delta.content or "" for c in chunks if c.choices) == "one two three"
            assert chunks[-1].usage and chunks[-1].usage.completion_tokens == 5
            with pytest.raises(openai.RateLimitError) as caught:
                await client.chat.completions.create(**asked)
            assert caught.value.response.headers["retry-after"] == "7"

    script = [message("a b"), tool_call("add", {"a": 1, "b": 2}), message("one two three"), rate_limited(retry_after=7)]
    with ScriptedServer(script) as server:
        asyncio.run(ask(server.url))
    assert [request.stream for request in server.requests] == [False, False, True, False]


def test_anthropic_sdk() -> None:
    async def ask(url: str) -> None:
        async with AsyncAnthropic(base_url=url, api_key=KEY, max_retries=0) as client:
            asked: Any = {"model": "m", "max_tokens": 10, "messages": [{"role": "user", "content": "q"}]}
            plain = await client.messages.create(**asked)
            assert isinstance(plain.content[0], TextBlock) and plain.content[0].text == "a b"
            assert (plain.stop_reason, plain.usage.input_tokens, plain.usage.cache_read_input_tokens) == (
                "end_turn",
                6,
                4,
            )
            called = await client.messages.create(**asked, tools=[ADD_TOOL])
            block = called.content[0]
            assert isinstance(block, ToolUseBlock) and block.input == {"a": 1, "b": 2}
            # The SDK accumulates the events itself, so that a wrong one would show.
            async with client.messages.stream(**asked) as stream:
                final = await stream.get_final_message()
            assert [b.type for b in final.content] == ["text", "tool_use"]
            assert isinstance(final.content[1], ToolUseBlock) and final.content[1].input == {"a": 1, "b": 2}
            assert (final.stop_reason, final.usage.output_tokens) == ("tool_use", 5)

    call = tool_call("add", {"a": 1, "b": 2}, text="one two three")
    script = [message("a b", usage=Usage(10, 5, cached_tokens=4)), tool_call("add", {"a": 1, "b": 2}), call]
    with ScriptedServer(script) as server:
        asyncio.run(ask(server.url))


@pytest.mark.parametrize("provider", PROVIDERS)
def test_round_trip_of_a_tool_call(provider: str) -> None:
    with ScriptedServer([tool_call("add", {"a": 20, "b": 22}), message("It is 42.")]) as server:
        agent = Agent(model_of(provider, server.url))

        @agent.tool_plain
        def add(a: int, b: int) -> int:
            return a + b

        async def ask() -> str:
            async with agent:
                return (await agent.run("What is 20 + 22?")).output

        assert asyncio.run(ask()) == "It is 42."
    assert "42" in json.dumps(server.requests[1].body) and "42" not in json.dumps(server.requests[0].body)


@pytest.mark.parametrize("provider", PROVIDERS)
def test_stream(provider: str) -> None:
    answer = Message("one two three", (ToolCall("add", {"a": 1, "b": 2}),), Finish.TOOL_CALLS, usage=Usage(7, 3))

    async def ask(url: str) -> None:
        parameters = ModelRequestParameters(function_tools=[ADD])
        prompt = [ModelRequest.user_text_prompt("q")]
        async with (
            model_of(provider, url) as model,
            model_request_stream(model, prompt, model_request_parameters=parameters) as stream,
        ):
            events = [event async for event in stream]
            response = stream.get()
        assert len(events) > 4, "it did not come in pieces"
        text, call = response.parts
        assert isinstance(text, TextPart) and text.content == "one two three"
        assert isinstance(call, ToolCallPart) and call.args_as_dict() == {"a": 1, "b": 2}
        assert (response.usage.input_tokens, response.usage.output_tokens) == (7, 3)

    with ScriptedServer([answer]) as server:
        asyncio.run(ask(server.url))
    assert server.requests[0].stream


def run_with(provider: str, url: str, ask: Callable[[Any], Awaitable[None]]) -> None:
    async def go() -> None:
        async with model_of(provider, url) as model:
            await ask(model)

    asyncio.run(go())


@pytest.mark.parametrize("provider", PROVIDERS)
def test_requests_are_recorded_without_keys(provider: str) -> None:
    async def ask(model: Any) -> None:
        await model_request(model, [ModelRequest.user_text_prompt("the prompt")])

    with ScriptedServer([message("x")]) as server:
        run_with(provider, server.url, ask)
    (request,) = server.requests
    assert request.method == "POST" and "the prompt" in json.dumps(request.body) and request.model
    assert KEY not in repr(request) and "redacted" in request.headers.values()


def test_a_callable_script_answers_by_what_is_asked() -> None:
    def script(request: Received) -> Message:
        return message(f"you asked {request.model} for {request.body['messages'][-1]['content']}")

    async def ask(model: Any) -> None:
        response = await model_request(model, [ModelRequest.user_text_prompt("this")])
        assert response.text == f"you asked {OPENAI_NAME} for this"

    with ScriptedServer(script) as server:
        run_with("openai", server.url, ask)


def post(url: str) -> int:
    request = urllib.request.Request(url, data=b'{"model": "m"}', headers={"Content-Type": "application/json"})
    without_proxies = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    try:
        with without_proxies.open(request, timeout=30) as response:
            return int(response.status)
    except urllib.error.HTTPError as error:
        with error:
            return error.code


@pytest.mark.parametrize(
    "path, script, complaint",
    [
        ("/v1/chat/completions", [], "request 1 of a script with 0 answers"),
        ("/v2/something", [message("x")], "no wire format at /v2/something"),
        ("/v1/messages", lambda request: 1 / 0, "division by zero"),
    ],
)
def test_what_the_script_cannot_answer_fails_the_test(path: str, script: Any, complaint: str) -> None:
    with pytest.raises(AssertionError, match=complaint), ScriptedServer(script) as server:
        assert post(server.url + path) == 400


def test_an_error_of_the_test_is_not_hidden_by_one_of_the_script() -> None:
    with pytest.raises(KeyError), ScriptedServer([]) as server:
        post(server.url + "/v1/messages")
        raise KeyError


def test_closing_ends_whoever_waits_and_refuses_whoever_comes() -> None:
    arrived = threading.Event()

    def script(request: Received) -> Late:
        arrived.set()
        return Late(3600)

    server = ScriptedServer(script)
    ended: list[Exception] = []

    def wait() -> None:
        try:
            post(f"{server.url}/v1/messages")
        except OSError as error:
            ended.append(error)

    with server:
        thread = threading.Thread(target=wait)
        thread.start()
        assert arrived.wait(30)
    thread.join(30)
    assert not thread.is_alive()
    with pytest.raises(OSError, match="refused"):
        post(f"{server.url}/v1/messages")
    with refusing() as url, pytest.raises(OSError, match="refused"):
        post(url)


def test_many_clients_at_once() -> None:
    together = threading.Barrier(4)

    def script(request: Received) -> Message:
        together.wait(30)
        return message("x")

    with ScriptedServer(script) as server:
        threads = [threading.Thread(target=post, args=(f"{server.url}/v1/messages",)) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(30)
    assert len(server.requests) == 4


def test_a_failure_does_not_outlive_its_turn() -> None:
    async def ask(model: Any) -> None:
        with pytest.raises(RuntimeError):
            await model_request(model, [ModelRequest.user_text_prompt("q")])
        assert (await model_request(model, [ModelRequest.user_text_prompt("q")])).text == "better"

    with ScriptedServer([server_error(), message("better")]) as server:
        run_with("anthropic", server.url, ask)
