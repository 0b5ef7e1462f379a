"""Edits: where a search text is meant, when it is not there to the letter."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from kernelevolve.errors import InvalidCandidate

_SHOWN = 60


@dataclass(frozen=True, slots=True)
class Edit:
    """Replace what ``search`` names by ``replace``; both are whole lines."""

    search: str
    replace: str


def apply_edits(source: str, edits: Sequence[Edit]) -> str:
    """The source with every edit made, in order.

    A search text is looked for to the letter first, then without regard to blanks at the ends of lines, then to
    indentation (the replacement is indented like what it replaces), then to blanks at all. It must be found once.
    Raises InvalidCandidate with a sentence that names the edit that does not apply and the closest place.
    """
    lines = source.split("\n")
    for number, edit in enumerate(edits, 1):
        lines = _applied(lines, edit, f"edit {number} of {len(edits)}")
    return "\n".join(lines)


def _applied(lines: list[str], edit: Edit, name: str) -> list[str]:
    wanted, new = _trimmed(edit.search), edit.replace.split("\n") if edit.replace else []
    if not wanted:
        raise InvalidCandidate(f"{name} has an empty search text", fix="copy the lines that it is to replace")
    for alike in _MANNERS:
        keys, sought = [alike(line) for line in lines], [alike(line) for line in wanted]
        places = [i for i in range(len(keys) - len(sought) + 1) if keys[i : i + len(sought)] == sought]
        if len(places) > 1:
            where = ", ".join(str(place + 1) for place in places[:5])
            raise InvalidCandidate(
                f"{name} fits {len(places)} places (lines {where})", fix="copy more lines around the one that is meant"
            )
        if places:
            start = places[0]
            return [*lines[:start], *_indented(new, wanted, lines[start:]), *lines[start + len(wanted) :]]
    raise InvalidCandidate(f"{name} does not apply: {_closest(lines, wanted)}", fix="copy the lines as they stand")


def _closest(lines: list[str], wanted: list[str]) -> str:
    """What is nearest to a text that is not there."""
    key = next(line.strip() for line in wanted if line.strip())
    near = difflib.get_close_matches(key, [line.strip() for line in lines], n=1, cutoff=0.5)
    if not near:
        return f"nothing like {key[:_SHOWN]!r} is in the program"
    number = next(i for i, line in enumerate(lines, 1) if line.strip() == near[0])
    if near[0] == key:
        return f"its first line is line {number}, but the lines after it differ"
    return f"{key[:_SHOWN]!r} is not in the program; closest is line {number}, {near[0][:_SHOWN]!r}"


def _trimmed(text: str) -> list[str]:
    lines = text.split("\n")
    while lines and not lines[0].strip():
        lines.pop(0)
    while lines and not lines[-1].strip():
        lines.pop()
    return lines


def _indented(new: list[str], wanted: list[str], found: list[str]) -> list[str]:
    """The replacement, moved by as much as the search text was off."""
    first = next(i for i, line in enumerate(wanted) if line.strip())
    here, there = _indent(wanted[first]), _indent(found[first])
    if here == there:
        return new
    if there.startswith(here):
        return [there[len(here) :] + line if line.strip() else line for line in new]
    surplus = here[len(there) :] if here.startswith(there) else ""
    return [line.removeprefix(surplus) for line in new]


def _indent(line: str) -> str:
    return line[: len(line) - len(line.lstrip())]


_MANNERS: tuple[Callable[[str], str], ...] = (
    lambda line: line,
    str.rstrip,
    str.strip,
    lambda line: "".join(line.split()),
)
