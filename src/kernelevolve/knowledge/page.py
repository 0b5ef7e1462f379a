"""One page: Markdown with front matter that says what it applies to and what it rests on."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any, Literal

import yaml
from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator

from kernelevolve.errors import KernelEvolveError
from kernelevolve.knowledge.vocabulary import ANY, BOTTLENECKS, LANGUAGES, TARGETS, Phase

# The loader of libyaml is ten times as quick; wheels have it, builds from source may not.
_LOADER: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_FENCE = "---"
_TITLE = re.compile(r"^# +(.+?) *$", re.MULTILINE)
_FORM = "begin the file with a block of '---' lines that holds targets, languages, bottlenecks, phase and sources"


class InvalidPage(KernelEvolveError):
    """A page cannot be read: no front matter, or a field of it that is missing or unknown."""


class FrontMatter(BaseModel):
    """What a page applies to, how much it presupposes, and what it rests on."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    targets: tuple[str, ...] = Field(min_length=1)
    languages: tuple[str, ...] = Field(min_length=1)
    bottlenecks: tuple[str, ...] = Field(min_length=1)
    phase: Phase
    sources: tuple[str, ...] = Field(min_length=1)
    """Numbered from 1; ``[2]`` in the text refers to the second."""

    @field_validator("targets", "languages", "bottlenecks")
    @classmethod
    def _known(cls, words: tuple[str, ...], info: Any) -> tuple[str, ...]:
        known = {"targets": TARGETS, "languages": LANGUAGES, "bottlenecks": BOTTLENECKS}[info.field_name]
        unknown = [word for word in words if word not in known]
        if unknown:
            raise ValueError(f"{unknown[0]!r} is unknown, choose from {', '.join(known)}")
        if ANY in words and len(words) > 1:
            raise ValueError(f"{ANY!r} stands alone")
        return words


class Page(BaseModel):
    """A page of the knowledge base; ``id`` is its path below the pages, without suffix: ``hardware/cpu/avx2``."""

    model_config = ConfigDict(frozen=True)

    id: str
    title: str
    body: str
    """The Markdown below the title."""
    front: FrontMatter
    origin: Literal["shipped", "user"] = "shipped"
    place: str = ""
    """Where a user's passage stands: ``file:page`` of a PDF, ``file:line`` of a Markdown file."""

    @property
    def citation(self) -> str:
        """The page and the sources that its ``[n]`` refer to, or the place in a user's document."""
        if self.origin == "user":
            return self.place
        return f"{self.id}: " + "; ".join(f"[{n}] {source}" for n, source in enumerate(self.front.sources, 1))


def parse(text: str, page_id: str, path: Path | str | None = None) -> Page:
    """Read one page. Raises InvalidPage, naming file, line and fix."""
    data, body, first = split_front_matter(text, path)
    if data is None:
        raise InvalidPage("the page has no front matter", fix=_FORM, path=path, line=1)
    try:
        front = FrontMatter.model_validate(data)
    except ValidationError as error:
        raise InvalidPage(f"the front matter {_complaint(error)}", fix=_FORM, path=path, line=1) from None
    title = _TITLE.search(body)
    if title is None or body[: title.start()].strip():
        raise InvalidPage("the page has no title", fix="begin the text with a line '# Title'", path=path, line=first)
    return Page(id=page_id, title=title[1], body=body[title.end() :].strip(), front=front)


def split_front_matter(text: str, path: Path | str | None = None) -> tuple[dict[str, Any] | None, str, int]:
    """The fields of the front matter (None without one), the text below it, and the line on which that begins.

    Raises InvalidPage if there is a block that is not a YAML mapping.
    """
    lines = text.splitlines()
    if not lines or lines[0].rstrip() != _FENCE:
        return None, text, 1
    end = next((n for n, line in enumerate(lines[1:], 1) if line.rstrip() == _FENCE), None)
    if end is None:
        raise InvalidPage("the front matter does not end", fix="close it with a line '---'", path=path, line=1)
    try:
        data = yaml.load("\n".join(lines[1:end]), Loader=_LOADER)
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        line = mark.line + 2 if mark is not None else 1
        said = getattr(error, "problem", None) or "cannot be read"
        raise InvalidPage(f"the front matter is not YAML: {said}", fix=_FORM, path=path, line=line) from None
    if not isinstance(data, dict):
        raise InvalidPage("the front matter is not a list of fields", fix=_FORM, path=path, line=1)
    return {str(key): value for key, value in data.items()}, "\n".join(lines[end + 1 :]), end + 2


def _complaint(error: ValidationError) -> str:
    first = error.errors()[0]
    field = str(first["loc"][0])
    if first["type"] == "missing":
        return f"lacks {field!r}"
    if first["type"] == "extra_forbidden":
        return f"has the unknown field {field!r}"
    return f"is wrong in {field!r}: {first['msg'].removeprefix('Value error, ')}"
