"""pydantic-ai's models with a server of ours in the place of the provider.

The providers make their HTTP clients themselves, as in production. Whoever leaves such a client behind in an event loop
that has ended hears of it later (`Event loop is closed`, out of the garbage collector), so enter the model or its agent:

    async with openai_model(server.url) as model:
        ...
"""

from __future__ import annotations

from pydantic_ai.models import Model
from pydantic_ai.models.anthropic import AnthropicModel
from pydantic_ai.models.google import GoogleModel
from pydantic_ai.models.openai import OpenAIChatModel
from pydantic_ai.providers.anthropic import AnthropicProvider
from pydantic_ai.providers.google import GoogleProvider
from pydantic_ai.providers.openai import OpenAIProvider
from pydantic_ai.settings import ModelSettings

KEY = "a-key-that-opens-nothing"
# Names that the price list knows.
OPENAI_NAME = "gpt-4o"
ANTHROPIC_NAME = "claude-sonnet-4-5"
GOOGLE_NAME = "gemini-2.5-flash"

# Without it the SDKs of OpenAI and Anthropic send every failed request three times.
NO_RETRIES = ModelSettings(max_retries=0)


def openai_model(url: str, *, name: str = OPENAI_NAME, settings: ModelSettings | None = NO_RETRIES) -> OpenAIChatModel:
    return OpenAIChatModel(name, provider=OpenAIProvider(base_url=f"{url}/v1", api_key=KEY), settings=settings)


def anthropic_model(
    url: str, *, name: str = ANTHROPIC_NAME, settings: ModelSettings | None = NO_RETRIES
) -> AnthropicModel:
    return AnthropicModel(name, provider=AnthropicProvider(base_url=url, api_key=KEY), settings=settings)


def google_model(url: str, *, name: str = GOOGLE_NAME, settings: ModelSettings | None = NO_RETRIES) -> GoogleModel:
    return GoogleModel(name, provider=GoogleProvider(base_url=url, api_key=KEY), settings=settings)


def model_of(provider: str, url: str) -> Model:
    match provider:
        case "openai":
            return openai_model(url)
        case "anthropic":
            return anthropic_model(url)
        case "google":
            return google_model(url)
    raise ValueError(f"no provider {provider}")
