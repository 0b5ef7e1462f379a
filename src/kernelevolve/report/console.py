"""A console on which candidates' words are only words: no mark-up, no escape sequence, no reversed text."""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import Any

from rich.console import Console, ConsoleOptions, RenderableType
from rich.segment import Segment

_BIDIRECTIONAL = "\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069"
_UNPRINTABLE = dict.fromkeys([*range(0x20), *range(0x7F, 0xA0), *map(ord, _BIDIRECTIONAL)])
_WIDTH_OF_A_FILE = 140
"""Columns where there is no terminal whose width counts; rich would take 80 and break every table."""
del _UNPRINTABLE[ord("\n")], _UNPRINTABLE[ord("\t")]


def printable(text: str) -> str:
    """The text without what would move a terminal's cursor, change its state or reverse what follows.

    A compiler log or a reason may quote a candidate, and a terminal obeys whatever escape sequence it is sent. All of
    these characters have no width, so that taking them out changes no layout.
    """
    return text.translate(_UNPRINTABLE)


class PlainConsole(Console):
    """A rich console that takes all text literally; styles are still its own to give."""

    def __init__(self, **options: Any) -> None:
        super().__init__(markup=False, highlight=False, emoji=False, **options)
        if not self.is_terminal and "width" not in options and "COLUMNS" not in os.environ:
            self.width = _WIDTH_OF_A_FILE

    def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterable[Segment]:
        """As rich does, with every piece of text made printable."""
        for segment in super().render(renderable, options):
            yield segment if segment.control else Segment(printable(segment.text), segment.style)
