"""Failure: how a request to a provider can end without an answer, and what is to be done about it."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from enum import StrEnum

from pydantic_ai import exceptions as raised

from kernelevolve.operators.llm.model_choice import without_keys

_LONGEST_WAIT = 120.0


class FailureKind(StrEnum):
    """What went wrong, as the ledger and the report name it."""

    RATE_LIMIT = "rate limit"
    QUOTA = "quota used up"
    OVERLOADED = "overloaded"
    SERVER = "server error"
    TIMEOUT = "timeout"
    CONNECTION = "connection"
    MALFORMED = "malformed answer"
    REFUSED = "refused"
    KEY = "key not accepted"
    UNKNOWN_MODEL = "unknown model"
    TOO_LONG = "question too long"
    REJECTED = "request not accepted"


_PASSING = frozenset(
    {
        FailureKind.RATE_LIMIT, FailureKind.OVERLOADED, FailureKind.SERVER, FailureKind.TIMEOUT,
        FailureKind.CONNECTION, FailureKind.MALFORMED,
    }
)  # fmt: skip
_LASTING = frozenset({FailureKind.QUOTA, FailureKind.KEY, FailureKind.UNKNOWN_MODEL, FailureKind.REJECTED})

_KINDS: tuple[tuple[type[Exception], FailureKind], ...] = (
    (raised.ModelRateLimitError, FailureKind.RATE_LIMIT),
    (raised.ModelQuotaExceededError, FailureKind.QUOTA),
    (raised.ModelUnavailableError, FailureKind.OVERLOADED),
    (raised.ModelServerError, FailureKind.SERVER),
    (raised.ModelRequestTimeout, FailureKind.TIMEOUT),
    (raised.ModelTimeoutError, FailureKind.TIMEOUT),
    (asyncio.TimeoutError, FailureKind.TIMEOUT),
    (raised.ModelConnectionError, FailureKind.CONNECTION),
    (raised.ModelAuthenticationError, FailureKind.KEY),
    (raised.ModelNotFoundError, FailureKind.UNKNOWN_MODEL),
    (raised.ModelContextWindowExceededError, FailureKind.TOO_LONG),
    (raised.ModelRequestRejectedError, FailureKind.REJECTED),
    (raised.ContentFilterError, FailureKind.REFUSED),
    (raised.ModelAPIError, FailureKind.SERVER),
    (OSError, FailureKind.CONNECTION),
    (Exception, FailureKind.MALFORMED),
)
"""The first that fits counts: subclasses stand before their bases. An answer of another shape than is documented
makes the provider's own library fail in any way."""


@dataclass(frozen=True, slots=True)
class Failure:
    """One request without an answer."""

    kind: FailureKind
    detail: str
    wait: float | None = None
    """Seconds that the provider asked to wait."""

    @property
    def passing(self) -> bool:
        """True if the same request may succeed later."""
        return self.kind in _PASSING

    @property
    def lasting(self) -> bool:
        """True if no request to this model will succeed until somebody mends something."""
        return self.kind in _LASTING

    @property
    def sentence(self) -> str:
        """Kind and detail on one line."""
        return f"{self.kind}: {self.detail}"[:400]

    def delay(self, attempt: int, first: float) -> float:
        """Seconds to wait after a number of failures: what the provider asks for, else twice as long each time."""
        wished = self.wait if self.wait is not None else first * 2 ** (attempt - 1)
        return min(_LONGEST_WAIT, max(0.0, wished))


class AnswerLost(Exception):
    """A conversation that ends without an answer, for a reason that is the provider's."""

    def __init__(self, failure: Failure) -> None:
        self.failure = failure
        super().__init__(failure.sentence)


def failure_of(error: Exception) -> Failure:
    """What is to be thought of something that a provider, its client or the network raised."""
    kind = next(kind for type_, kind in _KINDS if isinstance(error, type_))
    detail = without_keys(" ".join(str(error).split())) or type(error).__name__
    return Failure(kind, detail, getattr(error, "retry_after", None))
