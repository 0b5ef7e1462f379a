"""Source differences along the winning path: unified hunks, with what changed inside a line marked."""

from __future__ import annotations

import difflib
import re
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise, zip_longest

from kernelevolve.candidates import Config
from kernelevolve.report.contents import Contents, NodeEntry

_CONTEXT = 3
_ALIKE = 0.35
"""Two lines are compared word by word only if they are at least this similar; else the marks would be noise."""
_LONGEST_COMPARED = 2000
"""Characters; SequenceMatcher is quadratic."""


@dataclass(frozen=True, slots=True)
class Piece:
    """A stretch of a line."""

    text: str
    changed: bool


@dataclass(frozen=True, slots=True)
class Line:
    """One line of a hunk."""

    sign: str
    """' ', '-' or '+'."""
    old: int | None
    new: int | None
    """Line numbers, from 1."""
    pieces: tuple[Piece, ...]


@dataclass(frozen=True, slots=True)
class ConfigChange:
    """A tunable whose value differs; None where one side does not have it."""

    name: str
    old: str | None
    new: str | None


@dataclass(frozen=True, slots=True)
class Step:
    """One edge of the winning path."""

    parent: NodeEntry
    child: NodeEntry
    hunks: tuple[tuple[Line, ...], ...]
    config: tuple[ConfigChange, ...]
    added: int
    removed: int


def steps(contents: Contents) -> tuple[Step, ...]:
    """The edges from the first draft to the best node."""
    path = contents.lineage
    return tuple(_step(parent, child) for parent, child in pairwise(path))


def _step(parent: NodeEntry, child: NodeEntry) -> Step:
    hunks = difference(parent.candidate.source, child.candidate.source)
    signs = [line.sign for hunk in hunks for line in hunk]
    config = config_changes(parent.candidate.config, child.candidate.config)
    return Step(parent, child, hunks, config, signs.count("+"), signs.count("-"))


def config_changes(old: Config, new: Config) -> tuple[ConfigChange, ...]:
    """Tunables that differ, in the order of the new configuration."""
    names = [*new, *(name for name in old if name not in new)]

    def shown(config: Config, name: str) -> str | None:
        return repr(config[name]) if name in config else None

    return tuple(ConfigChange(n, shown(old, n), shown(new, n)) for n in names if shown(old, n) != shown(new, n))


def difference(old: str, new: str) -> tuple[tuple[Line, ...], ...]:
    """Hunks with three lines of context; none if the texts are equal."""
    before, after = old.splitlines(), new.splitlines()
    hunks = []
    for group in difflib.SequenceMatcher(None, before, after, autojunk=False).get_grouped_opcodes(_CONTEXT):
        lines: list[Line] = []
        for tag, i1, i2, j1, j2 in group:
            if tag == "equal":
                lines += [
                    Line(" ", i + 1, j + 1, (Piece(before[i], False),))
                    for i, j in zip(range(i1, i2), range(j1, j2), strict=True)
                ]
            else:
                lines += _replaced(before[i1:i2], after[j1:j2], i1, j1)
        hunks.append(tuple(lines))
    return tuple(hunks)


def _replaced(removed: Sequence[str], added: Sequence[str], i: int, j: int) -> list[Line]:
    """Removed lines, then added ones; those that stand for each other have their changes marked."""
    minus: list[Line] = []
    plus: list[Line] = []
    for n, (old, new) in enumerate(zip_longest(removed, added)):
        old_pieces, new_pieces = _marked(old, new)
        if old is not None:
            minus.append(Line("-", i + n + 1, None, old_pieces))
        if new is not None:
            plus.append(Line("+", None, j + n + 1, new_pieces))
    return minus + plus


def _marked(old: str | None, new: str | None) -> tuple[tuple[Piece, ...], tuple[Piece, ...]]:
    plain = (Piece(old or "", False),), (Piece(new or "", False),)
    if old is None or new is None or max(len(old), len(new)) > _LONGEST_COMPARED:
        return plain
    words_old, words_new = (re.findall(r"\w+|\s+|.", line) for line in (old, new))
    matcher = difflib.SequenceMatcher(None, words_old, words_new, autojunk=False)
    if matcher.ratio() < _ALIKE:
        return plain
    left: list[Piece] = []
    right: list[Piece] = []
    for tag, i1, i2, j1, j2 in matcher.get_opcodes():
        for pieces, words in ((left, words_old[i1:i2]), (right, words_new[j1:j2])):
            if words:
                pieces.append(Piece("".join(words), tag != "equal"))
    return tuple(left), tuple(right)
