"""The knowledge base: the pages that are shipped, and what the user added."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches
from functools import cache, cached_property
from pathlib import Path
from threading import Lock

from kernelevolve.errors import InvalidRequest
from kernelevolve.knowledge.page import Page, parse
from kernelevolve.knowledge.retrieval import Found, Index, Query

PAGES = Path(__file__).parent / "pages"
"""The pages that are shipped."""
DEFAULT_LIMIT = 5


class KnowledgeBase:
    """Pages that can be asked. Without arguments: the shipped ones and what the user added."""

    def __init__(self, pages: Iterable[Page] | None = None) -> None:
        if pages is None:
            from kernelevolve.knowledge.user import user_pages

            pages = (*shipped_pages(), *user_pages())
        self._pages = {page.id: page for page in sorted(pages, key=lambda page: page.id)}
        self._lock = Lock()

    @cached_property
    def _index(self) -> Index:
        return Index(self.pages())

    def pages(self) -> tuple[Page, ...]:
        """All pages, by identifier."""
        return tuple(self._pages.values())

    def page(self, page_id: str) -> Page:
        """The page of that identifier. Raises InvalidRequest, naming the nearest ones."""
        found = self._pages.get(page_id.removesuffix(".md"))
        if found is None:
            ends = [known for known in self._pages if known.endswith(f"/{page_id}")]
            near = ends[:3] or get_close_matches(page_id, self._pages, n=3, cutoff=0.5)
            fix = f"did you mean {' or '.join(near)}?" if near else "look for one with: kernelevolve knowledge search"
            raise InvalidRequest(f"there is no page {page_id!r}", fix=fix)
        return found

    def retrieve(
        self,
        text: str,
        *,
        target: str | None = None,
        language: str | None = None,
        bottleneck: str | None = None,
        depth: int | None = None,
        phase: str | None = None,
        limit: int = DEFAULT_LIMIT,
    ) -> list[Found]:
        """The pages that answer a question, best first.

        Pages are filtered by ``target``, ``language``, ``bottleneck`` and ``phase`` (None, ``auto`` and ``unknown``
        restrict nothing) and ranked by BM25. ``depth`` is how deep the search is: at 0 and 1 basics come first and
        advanced pages fill up; up to 3 nothing for experts is given; from 4 on, or with None, everything is. An
        empty text gives all pages that apply, basics first. Raises InvalidRequest for an unknown word.
        """
        query = Query.of(text, target=target, language=language, bottleneck=bottleneck, phase=phase, depth=depth)
        with self._lock:
            return self._index.find(query, limit)


@cache
def shipped_pages() -> tuple[Page, ...]:
    """The pages of the package. Raises InvalidPage."""
    return load_pages(PAGES)


def load_pages(folder: Path) -> tuple[Page, ...]:
    """All ``*.md`` below a folder, by identifier. Raises InvalidPage."""
    return tuple(
        parse(path.read_text(encoding="utf-8"), path.relative_to(folder).with_suffix("").as_posix(), path)
        for path in sorted(folder.rglob("*.md"))
    )
