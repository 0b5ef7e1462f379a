"""Which pages answer a question: first those that apply, then by BM25, then by how deep the search is."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from dataclasses import dataclass

from pydantic import BaseModel, ConfigDict

from kernelevolve.errors import KernelEvolveError
from kernelevolve.knowledge.page import Page
from kernelevolve.knowledge.vocabulary import (
    ANY,
    Phase,
    bottleneck_word,
    language_word,
    phase_word,
    target_word,
)
from kernelevolve.knowledge.words import WORD, words_of

BASICS_UNTIL = 1
"""Depth up to which basics come first and nothing for experts is given."""
ADVANCED_UNTIL = 3
"""Depth up to which nothing for experts is given."""
_RELEVANT = 0.25
"""Share of the best score below which a page is about something else."""
_TITLE_WEIGHT, _SUBJECT_WEIGHT, _BODY_WEIGHT = 6.0, 3.0, 1.0
_SNIPPET_WORDS = 28
INDEX_PAGE = "index"
"""The list of all pages answers no question, though it has every word."""
_PHASES = list(Phase)


class Found(BaseModel):
    """A page that answers a question."""

    model_config = ConfigDict(frozen=True)

    page_id: str
    title: str
    text: str
    """The page's Markdown; ``[n]`` in it refers to the citation's sources."""
    citation: str
    score: float
    """BM25, larger is better; 0 if the question had no words. Comparable within one answer only."""
    snippet: str = ""
    """The passage with most of the question's words."""


@dataclass(frozen=True)
class Query:
    """A question in the vocabulary of the pages. ``None`` restricts nothing."""

    text: str = ""
    target: str | None = None
    language: str | None = None
    bottleneck: str | None = None
    phase: Phase | None = None
    depth: int | None = None

    @classmethod
    def of(
        cls,
        text: str,
        *,
        target: str | None = None,
        language: str | None = None,
        bottleneck: str | None = None,
        phase: str | None = None,
        depth: int | None = None,
    ) -> Query:
        """Check the words. Raises InvalidRequest for one that no page can be filed under."""
        return cls(
            text, target_word(target), language_word(language), bottleneck_word(bottleneck), phase_word(phase), depth
        )

    def suits(self, page: Page) -> bool:
        """True if the page applies to what is asked and presupposes no more than the depth allows."""
        if page.id == INDEX_PAGE:
            return False
        if self.phase is not None and page.front.phase is not self.phase:
            return False
        if self.depth is not None and self.depth <= ADVANCED_UNTIL and page.front.phase is Phase.EXPERT:
            return False
        asked = (
            (self.target, page.front.targets),
            (self.language, page.front.languages),
            (self.bottleneck, page.front.bottlenecks),
        )
        return all(word is None or word in words or ANY in words for word, words in asked)

    def tier(self, page: Page) -> int:
        """0 for the pages that come first at this depth, whatever their score."""
        if self.depth is None or self.depth > BASICS_UNTIL:
            return 0
        return _PHASES.index(page.front.phase)


class Index:
    """A full-text index over pages, in memory. Equal pages and equal questions give equal answers."""

    def __init__(self, pages: Sequence[Page]) -> None:
        self._pages = sorted(pages, key=lambda page: page.id)
        # One thread at a time may use it; operators ask from threads of their own.
        self._rows = sqlite3.connect(":memory:", check_same_thread=False)
        try:
            self._rows.execute(
                "CREATE VIRTUAL TABLE pages USING fts5(title, subject, body, tokenize='porter unicode61')"
            )
        except sqlite3.OperationalError as error:
            raise KernelEvolveError(
                f"SQLite cannot search text here: {error}", fix="use a Python whose sqlite3 module has FTS5"
            ) from error
        self._rows.executemany(
            "INSERT INTO pages (rowid, title, subject, body) VALUES (?, ?, ?, ?)",
            [(n, page.title, _subject(page), page.body) for n, page in enumerate(self._pages)],
        )
        self._rows.commit()

    def find(self, query: Query, limit: int) -> list[Found]:
        """The pages that answer, best first, ``limit`` at most."""
        allowed = {n for n, page in enumerate(self._pages) if query.suits(page)}
        words = words_of(query.text)
        if not words:
            ranked = [(query.tier(self._pages[n]), 0.0, n, "") for n in allowed]
        else:
            hits = [hit for hit in self._match(words) if hit[0] in allowed]
            best = max((score for _, score, _ in hits), default=0.0)
            ranked = [
                (query.tier(self._pages[n]), score, n, snippet)
                for n, score, snippet in hits
                if score >= _RELEVANT * best
            ]
        ranked.sort(key=lambda entry: (entry[0], -entry[1], self._order(entry[2])))
        return [_found(self._pages[n], score, snippet) for _, score, n, snippet in ranked[: max(0, limit)]]

    def _match(self, words: Sequence[str]) -> list[tuple[int, float, str]]:
        # Words were reduced to letters and digits, so that quoting them is safe.
        expression = " OR ".join(f'"{word}"' for word in words)
        rows = self._rows.execute(
            f"SELECT rowid, bm25(pages, {_TITLE_WEIGHT}, {_SUBJECT_WEIGHT}, {_BODY_WEIGHT}), "
            f"snippet(pages, 2, '', '', '…', {_SNIPPET_WORDS}) FROM pages WHERE pages MATCH ?",
            (expression,),
        )
        return [(int(n), round(-float(score), 6), " ".join(str(text).split())) for n, score, text in rows]

    def _order(self, n: int) -> tuple[int, str]:
        page = self._pages[n]
        return _PHASES.index(page.front.phase), page.id


def _subject(page: Page) -> str:
    """The words that a page is filed under, in its path and its front matter."""
    front = page.front
    filed = [word for words in (front.targets, front.languages, front.bottlenecks) for word in words if word != ANY]
    return " ".join([*WORD.findall(page.id), *filed])


def _found(page: Page, score: float, snippet: str) -> Found:
    return Found(
        page_id=page.id, title=page.title, text=page.body, citation=page.citation, score=score, snippet=snippet
    )
