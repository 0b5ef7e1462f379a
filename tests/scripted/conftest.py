"""These tests need the clients of the providers, which come with an optional extra."""

from __future__ import annotations

from importlib.util import find_spec


def installed(package: str) -> bool:
    try:
        return find_spec(package) is not None
    except ModuleNotFoundError:  # where not even its parent is
        return False


collect_ignore_glob = (
    [] if all(map(installed, ("pydantic_ai", "openai", "anthropic", "google.genai"))) else ["test_*.py"]
)
