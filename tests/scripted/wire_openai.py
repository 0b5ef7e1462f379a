"""OpenAI chat completions: https://platform.openai.com/docs/api-reference/chat."""

from __future__ import annotations

from typing import Any

from scripted.answers import Finish, Message, Usage
from scripted.failures import Reason
from scripted.received import Received
from scripted.wire import Body, event, halves, pieces

FINISH = {
    Finish.STOP: "stop",
    Finish.TOOL_CALLS: "tool_calls",
    Finish.LENGTH: "length",
    Finish.CONTENT_FILTER: "content_filter",
}

# Status, type, code and message of https://platform.openai.com/docs/guides/error-codes.
ERRORS: dict[Reason, tuple[int, str, str | None, str]] = {
    Reason.RATE_LIMIT: (429, "requests", "rate_limit_exceeded", "Rate limit reached for requests"),
    Reason.QUOTA: (429, "insufficient_quota", "insufficient_quota", "You exceeded your current quota"),
    Reason.SERVER: (500, "server_error", None, "The server had an error while processing your request"),
    Reason.UNAVAILABLE: (503, "server_error", None, "Service unavailable"),
    Reason.OVERLOADED: (503, "server_error", None, "The engine is currently overloaded, please try again later"),
    Reason.AUTHENTICATION: (401, "invalid_request_error", "invalid_api_key", "Incorrect API key provided"),
    Reason.CONTEXT: (
        400,
        "invalid_request_error",
        "context_length_exceeded",
        "This model's maximum context length is 128000 tokens",
    ),
    Reason.UNKNOWN_MODEL: (404, "invalid_request_error", "model_not_found", "The model does not exist"),
}


class OpenAIWire:
    def speaks(self, path: str) -> bool:
        return path == "/v1/chat/completions"

    def plain(self, message: Message, request: Received) -> Body:
        content: Body = {"role": "assistant", "content": message.text or None, "refusal": message.refusal}
        if message.tool_calls:
            content["tool_calls"] = [
                {"id": c.id, "type": "function", "function": {"name": c.name, "arguments": c.arguments_text}}
                for c in message.tool_calls
            ]
        choice = {"index": 0, "message": content, "logprobs": None, "finish_reason": _finish(message)}
        body = _head(message, request, "chat.completion") | {"choices": [choice]}
        return body | ({"usage": _usage(message.usage)} if message.usage else {})

    def stream(self, message: Message, request: Received) -> list[bytes]:
        head = _head(message, request, "chat.completion.chunk")
        options = request.body.get("stream_options") or {}

        def chunk(delta: Body, finish: str | None = None) -> bytes:
            choices = [{"index": 0, "delta": delta, "logprobs": None, "finish_reason": finish}]
            return event(head | {"choices": choices})

        events = [chunk({"role": "assistant", "content": "", "refusal": None})]
        events += [chunk({"content": piece}) for piece in pieces(message.text)]
        events += [chunk({"refusal": piece}) for piece in pieces(message.refusal or "")]
        for index, call in enumerate(message.tool_calls):
            begin = {
                "index": index,
                "id": call.id,
                "type": "function",
                "function": {"name": call.name, "arguments": ""},
            }
            events.append(chunk({"tool_calls": [begin]}))
            for half in halves(call.arguments_text):
                events.append(chunk({"tool_calls": [{"index": index, "function": {"arguments": half}}]}))
        events.append(chunk({}, _finish(message)))
        if message.usage and options.get("include_usage"):
            events.append(event(head | {"choices": [], "usage": _usage(message.usage)}))
        return [*events, event("[DONE]")]

    def error(self, reason: Reason, request: Received) -> tuple[int, Body]:
        status, kind, code, text = ERRORS[reason]
        return status, {"error": {"message": text, "type": kind, "param": None, "code": code}}

    def error_event(self, reason: Reason, request: Received) -> bytes:
        return event(self.error(reason, request)[1])


def _finish(message: Message) -> str:
    # A refusal is no matter of the filter: the model wrote it, and stopped.
    return "stop" if message.refusal else FINISH[message.finish]


def _head(message: Message, request: Received, kind: str) -> dict[str, Any]:
    return {"id": "chatcmpl-1", "object": kind, "created": 1_700_000_000, "model": message.model or request.model}


def _usage(usage: Usage) -> Body:
    return {
        "prompt_tokens": usage.input_tokens,
        "completion_tokens": usage.output_tokens,
        "total_tokens": usage.input_tokens + usage.output_tokens,
        "prompt_tokens_details": {"cached_tokens": usage.cached_tokens},
    }
