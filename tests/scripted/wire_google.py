"""Google generateContent: https://ai.google.dev/api/generate-content."""

from __future__ import annotations

from scripted.answers import Finish, Message, ToolCall, Usage
from scripted.failures import Reason
from scripted.received import Received
from scripted.wire import Body, event, pieces

FINISH = {
    Finish.STOP: "STOP",
    Finish.TOOL_CALLS: "STOP",
    Finish.LENGTH: "MAX_TOKENS",
    Finish.CONTENT_FILTER: "SAFETY",
}

DAILY_QUOTA: Body = {
    "@type": "type.googleapis.com/google.rpc.QuotaFailure",
    "violations": [{"quotaId": "GenerateRequestsPerDayPerProjectPerModel-FreeTier"}],
}
BAD_KEY: Body = {"@type": "type.googleapis.com/google.rpc.ErrorInfo", "reason": "API_KEY_INVALID"}

# Status, its name, message and details of https://ai.google.dev/gemini-api/docs/troubleshooting.
ERRORS: dict[Reason, tuple[int, str, str, list[Body]]] = {
    Reason.RATE_LIMIT: (429, "RESOURCE_EXHAUSTED", "You exceeded your current quota", []),
    Reason.QUOTA: (429, "RESOURCE_EXHAUSTED", "You exceeded your current quota", [DAILY_QUOTA]),
    Reason.SERVER: (500, "INTERNAL", "An internal error has occurred", []),
    Reason.UNAVAILABLE: (503, "UNAVAILABLE", "The service is currently unavailable", []),
    Reason.OVERLOADED: (503, "UNAVAILABLE", "The model is overloaded. Please try again later.", []),
    Reason.AUTHENTICATION: (400, "INVALID_ARGUMENT", "API key not valid", [BAD_KEY]),
    Reason.CONTEXT: (
        400,
        "INVALID_ARGUMENT",
        "The input token count (2000000) exceeds the maximum number of tokens allowed (1048576).",
        [],
    ),
    Reason.UNKNOWN_MODEL: (404, "NOT_FOUND", "models/no-such-model is not found for API version v1beta", []),
}


class GoogleWire:
    def speaks(self, path: str) -> bool:
        return path.partition("?")[0].endswith((":generateContent", ":streamGenerateContent"))

    def plain(self, message: Message, request: Received) -> Body:
        parts: list[Body] = [{"text": message.text}] if message.text else []
        parts += [_call(call) for call in message.tool_calls]
        return _chunk(message, request, parts, last=True)

    def stream(self, message: Message, request: Received) -> list[bytes]:
        parts: list[Body] = [{"text": piece} for piece in pieces(message.text)]
        parts += [_call(call) for call in message.tool_calls]
        events = [event(_chunk(message, request, [part], last=False)) for part in parts]
        return [*events, event(_chunk(message, request, [], last=True))]

    def error(self, reason: Reason, request: Received) -> tuple[int, Body]:
        status, name, text, details = ERRORS[reason]
        return status, {"error": {"code": status, "message": text, "status": name, "details": details}}

    def error_event(self, reason: Reason, request: Received) -> bytes:
        return event(self.error(reason, request)[1])


def _call(call: ToolCall) -> Body:
    return {"functionCall": {"id": call.id, "name": call.name, "args": call.arguments_value}}


def _chunk(message: Message, request: Received, parts: list[Body], *, last: bool) -> Body:
    candidate: Body = {"content": {"role": "model", "parts": parts}, "index": 0}
    if last:
        candidate["finishReason"] = FINISH[message.finish]
    body: Body = {"candidates": [candidate], "modelVersion": message.model or request.model, "responseId": "response_1"}
    return body | ({"usageMetadata": _usage(message.usage)} if message.usage and last else {})


def _usage(usage: Usage) -> Body:
    return {
        "promptTokenCount": usage.input_tokens,
        "candidatesTokenCount": usage.output_tokens,
        "totalTokenCount": usage.input_tokens + usage.output_tokens,
        "cachedContentTokenCount": usage.cached_tokens,
    }
