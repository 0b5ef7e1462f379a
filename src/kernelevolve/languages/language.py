"""Language: how candidates of one kind are checked and built."""

from __future__ import annotations

import ast
from collections.abc import Mapping
from typing import Protocol

from pydantic import BaseModel, ConfigDict, Field

from kernelevolve.candidates.structure import parse


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
    limits: Mapping[str, str]
    """Target -> what does not work or says nothing there; a target that is not named has no such limit."""

    def availability(self) -> Availability:
        """Whether this machine can compile it."""
        ...

    def matches(self, source: str) -> bool:
        """True if a candidate source is written in this language (used when a file is given without a language).

        Raises InvalidCandidate if it is not Python.
        """
        ...


def imports(source: str) -> frozenset[str]:
    """Dotted names that a source imports anywhere: modules, and ``module.name`` for ``from module import name``."""
    found: set[str] = set()
    for node in ast.walk(parse(source)):
        if isinstance(node, ast.Import):
            found.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module is not None and node.level == 0:
            found.add(node.module)
            found.update(f"{node.module}.{alias.name}" for alias in node.names)
    return frozenset(found)


def inline_sources(source: str) -> frozenset[str]:
    """Which kinds of source a candidate gives to torch's ``load_inline``: 'cpp_sources', 'cuda_sources' …"""
    return frozenset(
        keyword.arg
        for node in ast.walk(parse(source))
        if isinstance(node, ast.Call)
        and "load_inline" in (getattr(node.func, "attr", ""), getattr(node.func, "id", ""))
        for keyword in node.keywords
        if keyword.arg is not None
        and keyword.arg.endswith("_sources")
        and not (isinstance(keyword.value, ast.Constant) and not keyword.value.value)
    )
