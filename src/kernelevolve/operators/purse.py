"""Purse: what a run may spend on language models. What is promised to a request in flight counts as spent."""

from __future__ import annotations

import threading
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Money:
    """What requests cost."""

    requests: int = 0
    """Those that were answered, whatever the answer was worth."""
    input_tokens: int = 0
    output_tokens: int = 0
    dollars: float = 0.0

    @property
    def tokens(self) -> int:
        """Of both kinds together."""
        return self.input_tokens + self.output_tokens

    def __add__(self, other: Money) -> Money:
        return Money(
            self.requests + other.requests, self.input_tokens + other.input_tokens,
            self.output_tokens + other.output_tokens, self.dollars + other.dollars,
        )  # fmt: skip


@dataclass(frozen=True, slots=True)
class Promise:
    """What a request in flight may cost at most, estimated."""

    tokens: int
    dollars: float


class PurseEmpty(Exception):
    """A request would go beyond a limit; says which, in one sentence without its end."""


class Purse:
    """The account of a run's model money. Any thread may use it.

    A limit is exceeded by no more than what the estimates of the requests in flight are too low by; the answer's length
    is bounded exactly, the length of the question is estimated.
    """

    def __init__(self, tokens: int | None = None, dollars: float | None = None, spent: Money | None = None) -> None:
        self.token_limit, self.dollar_limit = tokens, dollars
        self._spent = spent or Money()
        self._promised: list[Promise] = []
        self._lock = threading.Lock()

    @property
    def spent(self) -> Money:
        """Settled requests, those of earlier processes included."""
        with self._lock:
            return self._spent

    @property
    def promised(self) -> Promise:
        """Requests in flight."""
        with self._lock:
            return self._in_flight()

    def promise(self, tokens: int, dollars: float) -> Promise:
        """Set so much aside for a request. Raises PurseEmpty, having set nothing aside, if less than that is left."""
        with self._lock:
            flying = self._in_flight()
            if self.token_limit is not None and self._spent.tokens + flying.tokens + tokens > self.token_limit:
                raise PurseEmpty(f"{self._spent.tokens} of {self.token_limit} tokens are used")
            if self.dollar_limit is not None and self._spent.dollars + flying.dollars + dollars > self.dollar_limit:
                raise PurseEmpty(f"{self._spent.dollars:.2f} of {self.dollar_limit:.2f} dollars are used")
            made = Promise(tokens, dollars)
            self._promised.append(made)
            return made

    def settle(self, promise: Promise, money: Money) -> None:
        """A request has ended and cost this; nothing, if the provider charges nothing for it."""
        with self._lock:
            self._promised.remove(promise)
            self._spent += money

    def _in_flight(self) -> Promise:
        return Promise(sum(p.tokens for p in self._promised), sum(p.dollars for p in self._promised))
