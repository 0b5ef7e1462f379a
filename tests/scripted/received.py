"""What a client sent, as a test may assert it and a failure report may print it."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

SECRETS = frozenset({"authorization", "x-api-key", "x-goog-api-key", "api-key", "cookie"})
REDACTED = "redacted"


@dataclass(frozen=True)
class Received:
    """A request: header names are lower case, keys are replaced by `redacted`, the body is None if it is no JSON."""

    method: str
    path: str
    headers: Mapping[str, str]
    body: Any

    @property
    def model(self) -> str:
        """The model that is asked for: in the body, or (Google) in the path."""
        in_path = re.search(r"/models/([^/:]+):", self.path)
        return in_path[1] if in_path else str(self.body.get("model", "")) if isinstance(self.body, dict) else ""

    @property
    def stream(self) -> bool:
        return ":streamGenerateContent" in self.path or bool(isinstance(self.body, dict) and self.body.get("stream"))


def redact(headers: Mapping[str, str]) -> dict[str, str]:
    return {name.lower(): REDACTED if name.lower() in SECRETS else value for name, value in headers.items()}


def redact_path(path: str) -> str:
    return re.sub(r"([?&]key=)[^&]*", rf"\g<1>{REDACTED}", path)
