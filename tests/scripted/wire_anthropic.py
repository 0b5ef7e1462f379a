"""Anthropic messages: https://docs.anthropic.com/en/api/messages and /messages-streaming."""

from __future__ import annotations

from scripted.answers import Finish, Message, Usage
from scripted.failures import Reason
from scripted.received import Received
from scripted.wire import Body, event, halves, pieces

STOP_REASON = {
    Finish.STOP: "end_turn",
    Finish.TOOL_CALLS: "tool_use",
    Finish.LENGTH: "max_tokens",
    Finish.CONTENT_FILTER: "refusal",
}

# Status, type and message of https://docs.anthropic.com/en/api/errors.
ERRORS: dict[Reason, tuple[int, str, str]] = {
    Reason.RATE_LIMIT: (429, "rate_limit_error", "This request would exceed your rate limit"),
    Reason.QUOTA: (400, "invalid_request_error", "Your credit balance is too low to access the Anthropic API"),
    Reason.SERVER: (500, "api_error", "Internal server error"),
    Reason.UNAVAILABLE: (503, "api_error", "Service unavailable"),
    Reason.OVERLOADED: (529, "overloaded_error", "Overloaded"),
    Reason.AUTHENTICATION: (401, "authentication_error", "invalid x-api-key"),
    Reason.CONTEXT: (400, "invalid_request_error", "prompt is too long: 210000 tokens > 200000 maximum"),
    Reason.UNKNOWN_MODEL: (404, "not_found_error", "model: no-such-model"),
}


class AnthropicWire:
    def speaks(self, path: str) -> bool:
        return path == "/v1/messages"

    def plain(self, message: Message, request: Received) -> Body:
        content: list[Body] = []
        if message.text:
            content.append({"type": "text", "text": message.text, "citations": None})
        for call in message.tool_calls:
            content.append({"type": "tool_use", "id": call.id, "name": call.name, "input": call.arguments_value})
        body = _head(message, request) | {"content": content} | _stop(message)
        return body | ({"usage": _usage(message.usage)} if message.usage else {})

    def stream(self, message: Message, request: Received) -> list[bytes]:
        head = _head(message, request) | {"content": [], "stop_reason": None, "stop_sequence": None}
        if message.usage:
            head["usage"] = _usage(message.usage) | {"output_tokens": 0}
        events = [_named({"type": "message_start", "message": head})]
        blocks: list[tuple[Body, list[Body]]] = []
        if message.text:
            deltas: list[Body] = [{"type": "text_delta", "text": piece} for piece in pieces(message.text)]
            blocks.append(({"type": "text", "text": ""}, deltas))
        for call in message.tool_calls:
            begin = {"type": "tool_use", "id": call.id, "name": call.name, "input": {}}
            parts = [{"type": "input_json_delta", "partial_json": half} for half in halves(call.arguments_text)]
            blocks.append((begin, parts))
        for index, (begin, deltas) in enumerate(blocks):
            events.append(_named({"type": "content_block_start", "index": index, "content_block": begin}))
            events += [_named({"type": "content_block_delta", "index": index, "delta": delta}) for delta in deltas]
            events.append(_named({"type": "content_block_stop", "index": index}))
        end: Body = {"type": "message_delta", "delta": _stop(message)}
        if message.usage:
            end["usage"] = {"output_tokens": message.usage.output_tokens}
        return [*events, _named(end), _named({"type": "message_stop"})]

    def error(self, reason: Reason, request: Received) -> tuple[int, Body]:
        status, kind, text = ERRORS[reason]
        return status, {"type": "error", "error": {"type": kind, "message": text}, "request_id": "req_1"}

    def error_event(self, reason: Reason, request: Received) -> bytes:
        return _named(self.error(reason, request)[1])


def _named(data: Body) -> bytes:
    return event(data, name=data["type"])


def _head(message: Message, request: Received) -> Body:
    return {"id": "msg_1", "type": "message", "role": "assistant", "model": message.model or request.model}


def _stop(message: Message) -> Body:
    body: Body = {"stop_reason": STOP_REASON[message.finish], "stop_sequence": None}
    if message.refusal:
        body["stop_details"] = {"type": "refusal", "category": None, "explanation": message.refusal}
    return body


def _usage(usage: Usage) -> Body:
    return {
        # Here cached tokens are counted apart.
        "input_tokens": usage.input_tokens - usage.cached_tokens,
        "output_tokens": usage.output_tokens,
        "cache_read_input_tokens": usage.cached_tokens,
        "cache_creation_input_tokens": 0,
    }
