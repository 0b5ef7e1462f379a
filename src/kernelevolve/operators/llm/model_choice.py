"""ModelChoice: which language model, where it is served, and how it is opened. Keys come from the environment only."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pydantic import BaseModel, ConfigDict, Field

from kernelevolve.errors import InvalidRequest, MissingTarget

if TYPE_CHECKING:
    from pydantic_ai.models import Model

KEYS = {
    "openai": ("OPENAI_API_KEY",),
    "anthropic": ("ANTHROPIC_API_KEY",),
    "google": ("GOOGLE_API_KEY", "GEMINI_API_KEY"),
}
"""Provider -> environment variables of which one must hold its key."""
OWN_SERVER_KEY = "KERNELEVOLVE_MODEL_KEY"
"""The key for a server of one's own (``…@URL``), if it wants one. No provider's key is sent to another address."""

_FORM = re.compile(r"(?P<provider>[a-z]+):(?P<name>[^@=\s]+)(?:@(?P<url>https?://[^\s=]+))?(?:=(?P<weight>[0-9.]+))?")
_SECRET = re.compile(r"\b(?:sk|key|AIza)[-_A-Za-z0-9*.]{6,}")


class ModelChoice(BaseModel):
    """One model of the ensemble. Stored with the run."""

    model_config = ConfigDict(frozen=True)

    provider: str = Field(description="openai (and whatever speaks its protocol), anthropic or google")
    name: str = Field(description="as the provider calls it")
    url: str | None = Field(default=None, description="address of a server of one's own; null: the provider's")
    weight: float = Field(default=1.0, gt=0, description="how readily it is tried, compared with the others")

    @property
    def label(self) -> str:
        """``provider:name``, as reports show it."""
        return f"{self.provider}:{self.name}"

    @property
    def operator(self) -> str:
        """Name of the operator that this model is."""
        return f"llm:{self.label}"


def parse_model(text: str) -> ModelChoice:
    """``PROVIDER:NAME``, ``PROVIDER:NAME@URL``, each with ``=WEIGHT`` if wished. Raises InvalidRequest."""
    found = _FORM.fullmatch(text.strip())
    if found is None or found["provider"] not in KEYS:
        raise InvalidRequest(
            f"--model {text!r} names no model",
            fix=f"write PROVIDER:NAME with one of {', '.join(KEYS)}, or for a server of your own "
            "openai:NAME@http://127.0.0.1:8000/v1",
        )
    try:
        weight = float(found["weight"] or 1)
    except ValueError:
        weight = 0.0
    if weight <= 0:
        raise InvalidRequest(f"--model {text!r} has no weight", fix="give a number above 0 after the =")
    return ModelChoice(provider=found["provider"], name=found["name"], url=found["url"], weight=weight)


@dataclass(frozen=True, slots=True)
class OpenModel:
    """A model that can be asked here. It holds a client with connections of its own, so it is opened once."""

    model: Model


def open_model(choice: ModelChoice, *, request_seconds: float) -> OpenModel:
    """The model, ready to be asked; nothing is sent yet.

    The clients' own retries are off: every attempt is to be seen and recorded. Raises MissingTarget if the library or
    the key is missing.
    """
    key = _key(choice)
    try:
        return OpenModel(_opened(choice, key, request_seconds))
    except ImportError as error:
        raise MissingTarget(
            f"the library for {choice.label} is not installed ({error.name})", fix="pip install 'kernelevolve[llm]'"
        ) from None


def _key(choice: ModelChoice) -> str:
    if choice.url is not None:
        return os.environ.get(OWN_SERVER_KEY) or "none"
    names = KEYS[choice.provider]
    key = next((value for name in names if (value := os.environ.get(name))), None)
    if key is None:
        raise MissingTarget(
            f"there is no key for {choice.label}",
            fix=f"set {' or '.join(names)} in the environment, or allow the built-in operators alone with --fallback",
        )
    return key


def _opened(choice: ModelChoice, key: str, seconds: float) -> Model:
    if choice.provider == "openai":
        from openai import AsyncOpenAI
        from pydantic_ai.models.openai import OpenAIChatModel
        from pydantic_ai.providers.openai import OpenAIProvider

        openai = AsyncOpenAI(api_key=key, base_url=choice.url, max_retries=0, timeout=seconds)
        return OpenAIChatModel(choice.name, provider=OpenAIProvider(openai_client=openai))
    if choice.provider == "anthropic":
        from anthropic import AsyncAnthropic
        from pydantic_ai.models.anthropic import AnthropicModel
        from pydantic_ai.providers.anthropic import AnthropicProvider

        anthropic = AsyncAnthropic(api_key=key, base_url=choice.url, max_retries=0, timeout=seconds)
        return AnthropicModel(choice.name, provider=AnthropicProvider(anthropic_client=anthropic))
    from pydantic_ai.models.google import GoogleModel
    from pydantic_ai.providers.google import GoogleProvider

    return GoogleModel(choice.name, provider=GoogleProvider(api_key=key, base_url=choice.url))


def without_keys(text: str) -> str:
    """A foreign text in which every key of the environment, and whatever looks like one, is blotted out."""
    names = (*(name for names in KEYS.values() for name in names), OWN_SERVER_KEY)
    for value in filter(None, map(os.environ.get, names)):
        text = text.replace(value, "[key]")
    return _SECRET.sub("[key]", text)
