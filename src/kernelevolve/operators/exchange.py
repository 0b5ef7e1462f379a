"""Exchange: one request to a language model and what came back; and what a conversation of them ended in."""

from __future__ import annotations

from datetime import datetime
from enum import StrEnum
from typing import Protocol

from pydantic import BaseModel, ConfigDict, Field

from kernelevolve.candidates import Config

AFTER_ALL = -1
"""In the place of a question's number: an exchange that belongs to the run as a whole."""


class Purpose(StrEnum):
    """What a request is for."""

    ANALYSE = "analyse"
    """The context memory: a diagnosis before anything is written."""
    WRITE = "write"
    DISTILL = "distill"
    """A skill in words, after the run."""


class Exchange(BaseModel):
    """One attempt at one request, answered or not. Never holds a key."""

    model_config = ConfigDict(frozen=True)

    proposal: int = Field(description="number of the question to the operator that it belongs to; -1: none")
    ordinal: int = Field(description="0, 1, 2 … of the requests of that question")
    attempt: int = Field(description="1, 2, 3 … at that request")
    purpose: Purpose
    model: str
    request: str = Field(description="messages, tools and settings as JSON")
    response: str | None = Field(description="the answer as JSON; null if there was none")
    failure: str = Field(default="", description="kind of failure; '' if there is an answer")
    detail: str = Field(default="", description="what the provider or the library said of the failure")
    input_tokens: int = 0
    output_tokens: int = 0
    dollars: float = 0.0
    seconds: float = Field(default=0.0, description="from request to answer")
    at: datetime = Field(description="when it was sent, UTC")


class Ending(StrEnum):
    """What a conversation ended in."""

    CANDIDATE = "candidate"
    RETUNE = "retune"
    """Numbers alone: they go to the numeric search of a judged node."""
    NOTHING = "nothing"


class Conclusion(BaseModel):
    """The end of a question to a language model, stored before anything is judged: what was paid for is not lost."""

    model_config = ConfigDict(frozen=True)

    proposal: int
    operator: str
    parents: tuple[int, ...]
    ending: Ending
    source: str = Field(default="", description="the program; '' if there is none")
    language: str = ""
    config: Config = Field(default_factory=dict)
    node: int | None = Field(default=None, description="whose numeric search is to go on, of a retune")
    reason: str = Field(default="", description="why there is nothing")
    exhausted: str = Field(default="", description="why the model is not asked any more from here on; '' if it is")
    tokens: int = Field(default=0, description="of all requests of the conversation")
    dollars: float = 0.0


class ExchangeLog(Protocol):
    """Where exchanges are kept. Any thread may use it; what returned is on the disk."""

    def append(self, exchange: Exchange) -> None:
        """Keep an exchange."""
        ...

    def conclude(self, conclusion: Conclusion) -> None:
        """Keep the end of a conversation."""
        ...
