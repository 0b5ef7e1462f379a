"""A language model made of a script: a real server on loopback that speaks the wire formats of the providers.

    with ScriptedServer([rate_limited(retry_after=2), message("def f(): ...")]) as server:
        model = openai_model(server)

Whatever the client does is real: sockets, HTTP, the provider's SDK, pydantic-ai. Only the answers are written beforehand.
"""

from scripted.answers import Answer, Finish, Message, ToolCall, Usage, message, tool_call
from scripted.failures import (
    BrokenStream,
    ErrorInStream,
    HttpError,
    Late,
    Raw,
    Reason,
    Reset,
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
from scripted.received import Received
from scripted.server import Script, ScriptedServer

__all__ = [
    "Answer",
    "BrokenStream",
    "ErrorInStream",
    "Finish",
    "HttpError",
    "Late",
    "Message",
    "Raw",
    "Reason",
    "Received",
    "Reset",
    "Script",
    "ScriptedServer",
    "ToolCall",
    "Usage",
    "content_filtered",
    "context_too_long",
    "empty",
    "malformed_arguments",
    "message",
    "no_json",
    "overloaded",
    "quota_exhausted",
    "rate_limited",
    "refusal",
    "refusing",
    "server_error",
    "tool_call",
    "truncated",
    "unauthorized",
    "unavailable",
    "unknown_model",
    "unknown_tool",
    "without_usage",
    "wrong_shape",
]
