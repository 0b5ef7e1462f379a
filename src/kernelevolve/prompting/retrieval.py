"""Retrieval as prompts see it: whoever has pages that may help, by what limits the program and how far it has come."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol


class Found(Protocol):
    """A page, or the part of one, that was found."""

    @property
    def page_id(self) -> str: ...

    @property
    def title(self) -> str: ...

    @property
    def text(self) -> str: ...

    @property
    def citation(self) -> str:
        """Where it is from, in words."""
        ...

    @property
    def score(self) -> float: ...


class Retriever(Protocol):
    """Somebody who finds pages."""

    def retrieve(
        self,
        text: str,
        *,
        target: str | None,
        language: str | None,
        bottleneck: str | None,
        depth: int | None,
        limit: int,
    ) -> Sequence[Found]:
        """At most ``limit`` pages for a question in words, the most useful first; none if nothing fits.

        None restricts nothing.
        """
        ...
