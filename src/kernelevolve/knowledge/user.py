"""A user's own folder of Markdown and PDF: cut into passages that are cited by file and line or page."""

from __future__ import annotations

import os
import re
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, ValidationError

from kernelevolve.errors import InvalidRequest, MissingTarget
from kernelevolve.hashing import digest_bytes
from kernelevolve.knowledge.page import FrontMatter, InvalidPage, Page, split_front_matter
from kernelevolve.knowledge.vocabulary import ANY, Phase, language_word, target_word

DIRECTORY_VARIABLE = "KERNELEVOLVE_KNOWLEDGE_DIR"
"""Environment variable with the directory in which added passages are kept."""
LONGEST_PASSAGE = 400
"""Words of one passage; several have to fit a prompt beside everything else."""
_SUFFIXES = (".md", ".markdown", ".pdf")
_HEADING = re.compile(r"^(#{1,6}) +(.+?) *#* *$")
_FENCE = re.compile(r"^ {0,3}(```|~~~)")
_FEWEST = 4
"""Words below which a passage is a page number or a bare heading."""


class Collection(BaseModel):
    """What was read from one folder."""

    model_config = ConfigDict(frozen=True)

    name: str
    folder: str
    files: int
    pages: tuple[Page, ...]
    unread: tuple[str, ...] = ()
    """Files without text, such as PDFs of scanned pages, and those that cannot be read, with the reason."""


def directory() -> Path:
    """Where added passages are kept; not made by asking."""
    named = os.environ.get(DIRECTORY_VARIABLE)
    if named:
        return Path(named)
    base = os.environ.get("XDG_DATA_HOME")
    return (Path(base) if base else Path.home() / ".local" / "share") / "kernelevolve" / "knowledge"


def user_pages() -> tuple[Page, ...]:
    """Every passage that was added. Raises InvalidRequest for a damaged file."""
    return tuple(page for path in sorted(directory().glob("*.json")) for page in _stored(path).pages)


def add(folder: Path, *, targets: Sequence[str] = (), languages: Sequence[str] = ()) -> Collection:
    """Read a folder and keep its passages; what was read from it before is replaced.

    ``targets`` and ``languages`` say what the documents apply to, everything if empty. A Markdown file may say it
    itself, in the front matter of a page. Raises InvalidRequest, or MissingTarget where PDFs cannot be read.
    """
    if not folder.is_dir():
        raise InvalidRequest("this is no directory", path=folder, fix="give a folder of Markdown or PDF files")
    files = sorted(path for path in folder.rglob("*") if path.suffix.lower() in _SUFFIXES and path.is_file())
    if not files:
        raise InvalidRequest("there is no Markdown or PDF file below this directory", path=folder, fix="give another")
    front = FrontMatter(
        targets=_words(target_word(word) for word in targets),
        languages=_words(language_word(word) for word in languages),
        bottlenecks=(ANY,),
        phase=Phase.BASICS,  # What a user hands over is meant to be seen from the beginning.
        sources=("a document of the user",),
    )
    place = folder.resolve()
    name = _slug(place.name) or "documents"
    pages: list[Page] = []
    unread: list[str] = []
    for path in files:
        file = path.relative_to(folder).as_posix()
        try:
            passages = list(_passages(path, file, front))
        except (InvalidPage, UnicodeDecodeError, _Unreadable) as error:
            unread.append(f"{file}: {error}")
            continue
        if not passages:
            unread.append(f"{file}: it holds no text")
        for n, (title, text, where, fields) in enumerate(passages, 1):
            page_id = f"user/{name}/{file}#{n}"
            pages.append(Page(id=page_id, title=title, body=text, front=fields, origin="user", place=where))
    collection = Collection(name=name, folder=str(place), files=len(files), pages=tuple(pages), unread=tuple(unread))
    if pages:
        _keep(collection)
    return collection


class _Unreadable(Exception):
    """A file that is not what its name says."""


def _words(words: Iterator[str | None]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(word for word in words if word is not None)) or (ANY,)


def _slug(text: str) -> str:
    return re.sub(r"[^a-z0-9]+", "-", text.lower()).strip("-")


def _passages(path: Path, file: str, front: FrontMatter) -> Iterator[tuple[str, str, str, FrontMatter]]:
    """Title, text, place and front matter of every passage of a file."""
    if path.suffix.lower() == ".pdf":
        for number, text in _pdf_pages(path):
            for piece in _pieces(text):
                yield f"{path.stem}, page {number}", piece, f"{file}:{number}", front
        return
    fields, body, first = split_front_matter(path.read_text(encoding="utf-8"), file)
    own = _own_front(fields, front)
    for title, text, line in _sections(body, path.stem, first):
        for piece in _pieces(text):
            yield title, piece, f"{file}:{line}", own


def _own_front(fields: dict[str, Any] | None, front: FrontMatter) -> FrontMatter:
    """The file's front matter where it is that of a page; notes often have one of another kind, which says nothing."""
    try:
        return FrontMatter.model_validate(front.model_dump() | (fields or {}))
    except ValidationError:
        return front


def _sections(body: str, stem: str, first: int) -> Iterator[tuple[str, str, int]]:
    """Heading, text and first line of every section; ``#`` inside code is no heading."""
    title, start, lines, code = stem, first, list[str](), False
    for number, line in enumerate(body.splitlines(), first):
        code ^= bool(_FENCE.match(line))
        heading = None if code else _HEADING.match(line)
        if heading is None:
            lines.append(line)
            continue
        yield title, "\n".join(lines), start
        title, start, lines = heading[2], number, []
    yield title, "\n".join(lines), start


def _pieces(text: str) -> Iterator[str]:
    """The text in passages of at most ``LONGEST_PASSAGE`` words, cut between paragraphs where there are any."""
    piece: list[str] = []
    for paragraph in re.split(r"\n\s*\n", text.strip()):
        words = paragraph.split()
        if piece and len(" ".join(piece).split()) + len(words) > LONGEST_PASSAGE:
            yield from _worth(piece)
            piece = []
        while len(words) > LONGEST_PASSAGE:
            yield " ".join(words[:LONGEST_PASSAGE])
            words = words[LONGEST_PASSAGE:]
            paragraph = " ".join(words)
        piece.append(paragraph)
    yield from _worth(piece)


def _worth(paragraphs: Sequence[str]) -> Iterator[str]:
    text = "\n\n".join(paragraphs).strip()
    if len(text.split()) >= _FEWEST:
        yield text


def _pdf_pages(path: Path) -> Iterator[tuple[int, str]]:
    try:
        from pypdf import PdfReader
        from pypdf.errors import PyPdfError
    except ImportError:
        raise MissingTarget(
            "reading a PDF needs the package pypdf",
            path=path,
            fix="install it with: pip install 'kernelevolve[knowledge]'",
        ) from None
    try:
        for number, page in enumerate(PdfReader(path).pages, 1):
            yield number, page.extract_text()
    # What the library raises on damaged files is not confined to its own errors.
    except (PyPdfError, ValueError, KeyError, TypeError, AttributeError, IndexError, RecursionError, OSError) as error:
        raise _Unreadable(f"the PDF cannot be read ({type(error).__name__})") from error


def _keep(collection: Collection) -> None:
    place = directory()
    place.mkdir(parents=True, exist_ok=True)
    path = place / f"{collection.name}-{digest_bytes(collection.folder.encode())[:8]}.json"
    descriptor, name = tempfile.mkstemp(dir=place, suffix=".new")
    with os.fdopen(descriptor, "w", encoding="utf-8") as file:
        file.write(collection.model_dump_json(indent=1))
    Path(name).replace(path)  # Whole or not at all: another process may be reading.


def _stored(path: Path) -> Collection:
    try:
        return Collection.model_validate_json(path.read_bytes())
    except (ValidationError, OSError):
        raise InvalidRequest(
            "these added passages cannot be read", path=path, fix="delete the file and add the folder again"
        ) from None
