"""The words that pages are filed under and asked for by."""

from __future__ import annotations

from collections.abc import Iterable
from enum import StrEnum

from kernelevolve.errors import InvalidRequest

ANY = "any"
"""A page that is filed under ``any`` suits every question of that kind."""
TARGETS = ("nvidia", "amd", "mtia", "cpu", ANY)
LANGUAGES = ("triton", "cuda", "cpp", "cute_dsl", "hip", "flydsl", "mtia_cpp", "pytorch", ANY)
BOTTLENECKS = ("memory", "compute", "latency", "launch", ANY)
_ALIASES = {"cute": "cute_dsl", "mtia": "mtia_cpp"}
"""Names under which the same languages go elsewhere."""
_NO_ANSWER = frozenset({"unknown", "auto", ""})
"""What is said where nothing is known; it restricts nothing."""


class Phase(StrEnum):
    """How much a page presupposes."""

    BASICS = "basics"
    ADVANCED = "advanced"
    EXPERT = "expert"


def target_word(name: str | None) -> str | None:
    """The target under which pages are filed, or None for no restriction. Raises InvalidRequest."""
    return _word(name, TARGETS, "target")


def language_word(name: str | None) -> str | None:
    """The language under which pages are filed, or None for no restriction. Raises InvalidRequest."""
    # Registries write '-' where modules have '_'.
    known = name and name.replace("-", "_")
    return _word(known and _ALIASES.get(known, known), LANGUAGES, "language")


def bottleneck_word(name: str | None) -> str | None:
    """The bottleneck under which pages are filed, or None for no restriction. Raises InvalidRequest."""
    return _word(name, BOTTLENECKS, "bottleneck")


def phase_word(name: str | None) -> Phase | None:
    """The phase of that name, or None for no restriction. Raises InvalidRequest."""
    word = _word(name, tuple(Phase), "phase")
    return Phase(word) if word is not None else None


def _word(name: str | None, known: Iterable[str], kind: str) -> str | None:
    if name is None or name in _NO_ANSWER or name == ANY:
        return None
    if name not in known:
        words = ", ".join(word for word in known if word != ANY)
        raise InvalidRequest(f"the knowledge base has no {kind} {name!r}", fix=f"choose one of {words}")
    return name
