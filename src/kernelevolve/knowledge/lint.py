"""The rules that every page keeps, so that what is retrieved can be trusted and fits a prompt."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterable, Iterator
from pathlib import Path

from pydantic import BaseModel, ConfigDict

from kernelevolve.errors import InvalidRequest
from kernelevolve.knowledge.page import InvalidPage, Page, parse

MOST_WORDS = 1200
LEAST_WORDS = 60
_CODE = re.compile(r"^```.*?^```[^\n]*$", re.MULTILINE | re.DOTALL)
_SPAN = re.compile(r"`[^`\n]*`")
_LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")
_MARKER = re.compile(r"\[(\d+)\](?!\()")
_BULLET = re.compile(r"^ *(?:[*-]|\d+\.) ")
_ROW = re.compile(r"^ *\|")
_RULE = re.compile(r"^ *\|[ :|-]+\|? *$")
_WIDTH = re.compile(r"\b(?:8|16|32|64|128|256|512)(?:-bit| bits?)\b")
"""The name of a type or of a register rather than a quantity."""
_NUMBER = re.compile(r"(?<![\w./-])\d[\d,.]*\w*")
_NO_CLAIM = frozenset({"0", "1", "2"})
"""Numbers that count or index rather than state a quantity."""


class Complaint(BaseModel):
    """One rule that one page breaks."""

    model_config = ConfigDict(frozen=True)

    page: str
    rule: str
    text: str

    def __str__(self) -> str:
        return f"{self.page}: {self.text}"


def lint(folder: Path) -> tuple[int, list[Complaint]]:
    """The number of pages below a folder, and every rule that one of them breaks. Raises InvalidRequest."""
    files = sorted(folder.rglob("*.md")) if folder.is_dir() else []
    if not files:
        raise InvalidRequest("there is no Markdown file below this directory", path=folder, fix="give one with pages")
    pages: list[Page] = []
    found: list[Complaint] = []
    for path in files:
        page_id = path.relative_to(folder).with_suffix("").as_posix()
        try:
            pages.append(parse(path.read_text(encoding="utf-8"), page_id, path))
        except (InvalidPage, UnicodeDecodeError) as error:
            said = error.problem if isinstance(error, InvalidPage) else "the file is not UTF-8"
            found.append(Complaint(page=page_id, rule="front-matter", text=said))
    known = {path.relative_to(folder).with_suffix("").as_posix() for path in files}
    for page in pages:
        found += [Complaint(page=page.id, rule=rule, text=text) for rule, text in check_page(page, known)]
    found += _same_titles(pages)
    return len(files), sorted(found, key=lambda complaint: (complaint.page, complaint.rule, complaint.text))


def check_page(page: Page, known: set[str]) -> Iterator[tuple[str, str]]:
    """Every rule that one page breaks, with what is wrong; ``known`` are the pages that links may lead to."""
    words = len(page.body.split())
    if words > MOST_WORDS:
        yield "size", f"{words} words do not fit a prompt; {MOST_WORDS} are the most: split the page"
    if words < LEAST_WORDS:
        yield "size", f"{words} words are no page; say more, or put them into another one"
    yield from _links(page, known)
    yield from _markers(page)


def _links(page: Page, known: set[str]) -> Iterator[tuple[str, str]]:
    for link in _LINK.findall(_CODE.sub("", page.body)):
        if "://" in link or link.startswith("#"):
            continue
        to = posixpath.normpath(posixpath.join(posixpath.dirname(page.id), link.partition("#")[0]))
        if to.removesuffix(".md") not in known or not to.endswith(".md"):
            yield "link", f"the link to {link!r} leads to no page"


def _markers(page: Page) -> Iterator[tuple[str, str]]:
    prose = _WIDTH.sub("", _SPAN.sub("", _CODE.sub("", page.body)))
    count = len(page.front.sources)
    cited = {int(number) for number in _MARKER.findall(prose)}
    for number in sorted(cited):
        if not 1 <= number <= count:
            yield "marker", f"[{number}] refers to no source; there are {count}"
    for number in range(1, count + 1):
        if number not in cited:
            yield "marker", f"source {number} is not cited; refer to it as [{number}] or take it out"
    for claim in _claims(prose):
        numbers = [n for n in _NUMBER.findall(_MARKER.sub("", _LINK.sub("", claim))) if n.rstrip(",.") not in _NO_CLAIM]
        if numbers and not _MARKER.search(claim):
            start = " ".join(claim.split())[:60]
            yield "marker", f"the claim {start!r} has the number {numbers[0]} and no source such as [1]"


def _claims(prose: str) -> Iterator[str]:
    """Every list item with its continuation lines, and every row of a table below its head, without the mark."""
    item: list[str] = []
    head = True
    for line in [*prose.splitlines(), ""]:
        if _ROW.match(line):
            if _RULE.match(line):
                head = False
            elif not head:
                yield line
            continue
        head = True
        bullet = _BULLET.match(line)
        if item and (bullet or not line.strip() or not line.startswith(" ")):
            yield "\n".join(item)
            item = []
        if bullet:
            item = [line[bullet.end() :]]
        elif item:
            item.append(line)


def _same_titles(pages: Iterable[Page]) -> list[Complaint]:
    first: dict[str, str] = {}
    found = []
    for page in pages:
        other = first.setdefault(page.title.casefold(), page.id)
        if other != page.id:
            text = f"the title {page.title!r} is also that of {other}"
            found.append(Complaint(page=page.id, rule="title", text=text))
    return found
