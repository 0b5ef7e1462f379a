"""Answers: what a writer sent back, a whole file or edits, and what it changes."""

from __future__ import annotations

import ast
import re
from dataclasses import dataclass
from enum import StrEnum

from kernelevolve.candidates.structure import SPACE_NAME, assigned, parse, structure_key
from kernelevolve.errors import InvalidCandidate
from kernelevolve.prompting.edits import Edit, apply_edits

__all__ = ["Change", "Edit", "Edits", "WholeFile", "answered_source", "change_between", "parse_answer"]

_BLOCK = re.compile(r"^(?P<fence>`{3,}|~{3,})[^\n`]*\n(?P<body>.*?)^(?P=fence)[ \t]*$", re.DOTALL | re.MULTILINE)
_EDIT = re.compile(
    r"^<{5,9} ?SEARCH[ \t]*\n(?P<search>.*?)^={5,9}[ \t]*\n(?P<replace>.*?)^>{5,9} ?REPLACE[ \t]*$",
    re.DOTALL | re.MULTILINE,
)
_BEGUN = re.compile(r"^<{5,9} ?SEARCH", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class WholeFile:
    """A complete program."""

    source: str


@dataclass(frozen=True, slots=True)
class Edits:
    """Changes to the program that was shown."""

    edits: tuple[Edit, ...]


def parse_answer(text: str) -> WholeFile | Edits:
    """What an answer holds: edits if there are any, else its longest fenced block, else all of it if it is a program.

    Raises InvalidCandidate with a sentence if there is neither.
    """
    text = text.replace("\r\n", "\n")
    begun = len(_BEGUN.findall(text))
    if begun:
        edits = tuple(
            Edit(found["search"].removesuffix("\n"), found["replace"].removesuffix("\n"))
            for found in _EDIT.finditer(text)
        )
        if len(edits) != begun:
            raise InvalidCandidate(
                f"{begun - len(edits)} of {begun} edits are not complete",
                fix="write each as <<<<<<< SEARCH, the old lines, =======, the new lines, >>>>>>> REPLACE",
            )
        return Edits(edits)
    blocks = [found["body"] for found in _BLOCK.finditer(text)]
    if blocks:
        # A program is what defines ModelNew; an answer may quote other code as well.
        programs = [block for block in blocks if "ModelNew" in block] or blocks
        return WholeFile(max(programs, key=len))
    if "ModelNew" in text and ("import " in text):
        return WholeFile(text)
    raise InvalidCandidate(
        "the answer holds no program: neither a fenced Python file nor edits",
        fix="send one fenced block with the whole file, or SEARCH/REPLACE edits",
    )


def answered_source(text: str, shown: str | None) -> str:
    """The program that an answer means; ``shown`` is the one that its edits are about.

    Raises InvalidCandidate if it holds none, or if an edit does not apply.
    """
    answer = parse_answer(text)
    if isinstance(answer, WholeFile):
        return answer.source
    if shown is None:
        raise InvalidCandidate("the answer holds edits, but no program was shown", fix="send the whole file")
    return apply_edits(shown, answer.edits)


class Change(StrEnum):
    """How one program differs from another."""

    NOTHING = "nothing"
    """Comments, layout and ``CONFIG`` at most: the same program."""
    TUNABLES = "tunables"
    """The declaration of the tunables alone: the same program with another numeric freedom."""
    NUMBERS = "numbers"
    """Numeric constants alone, also inside an embedded source."""
    PROGRAM = "program"


def change_between(before: str, after: str) -> Change:
    """What kind of change it is; text that is no Python counts as another program."""
    try:
        if structure_key(before) == structure_key(after):
            return Change.NOTHING
        if _without_space(before) == _without_space(after):
            return Change.TUNABLES
        if structure_key(before, ignore_numbers=True) == structure_key(after, ignore_numbers=True):
            return Change.NUMBERS
    except InvalidCandidate:
        pass
    return Change.PROGRAM


def _without_space(source: str) -> str:
    """The key of a program whose declaration of tunables is empty; its own source if it declares none."""
    tree = parse(source)
    value = assigned(tree, SPACE_NAME)
    if value is None:
        return source
    for statement in tree.body:
        if isinstance(statement, (ast.Assign, ast.AnnAssign)) and statement.value is value:
            statement.value = ast.Constant(None)
    return structure_key(ast.unparse(tree))
