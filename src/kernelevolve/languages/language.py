"""Language: how candidates of one kind are checked and built."""

from __future__ import annotations

from typing import Protocol

from pydantic import BaseModel, ConfigDict, Field


class Availability(BaseModel):
    """Whether something works on this machine, and the fix if it does not."""

    model_config = ConfigDict(frozen=True)

    ok: bool
    version: str = ""
    missing: str = Field(default="", description="what is missing, in a few words")
    fix: str = Field(default="", description="the command or package that mends it")


class Language(Protocol):
    """One kernel language. The module ``languages/<name>.py`` holds ``LANGUAGE``, an instance of this.

    C-like languages also have a ``build(source, ...)`` function in that module, which candidates call: it compiles
    the embedded source in about a second, caches by content in the directory that ``build_directory()`` names, and
    raises BuildError with the compiler's own words.
    """

    name: str
    targets: frozenset[str]
    """Names of the targets it can run on."""

    def availability(self) -> Availability:
        """Whether this machine can compile it."""
        ...

    def matches(self, source: str) -> bool:
        """True if a candidate source is written in this language (used when a file is given without a language)."""
        ...
