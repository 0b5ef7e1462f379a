"""Answers: a whole file or edits, mended where it is clear what was meant, refused with a sentence where it is not."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kernelevolve.errors import InvalidCandidate
from kernelevolve.prompting import Change, Edit, Edits, WholeFile, answered_source, change_between, parse_answer
from kernelevolve.prompting.edits import apply_edits

SHOWN = "import torch\n\n\nclass ModelNew:\n    def a(self):\n        x = 1\n        return x\n\n    def b(self):\n        return 2\n"


def edit(old: str, new: str) -> str:
    return f"<<<<<<< SEARCH\n{old}\n=======\n{new}\n>>>>>>> REPLACE\n"


def test_the_program_of_an_answer_is_its_block_that_defines_it() -> None:
    text = (
        "First:\n```c\nvoid f();\n"
        + "// long\n" * 50
        + "```\nthen\n````python\nclass ModelNew:\n    s = '''```'''\n````\n"
    )
    assert parse_answer(text) == WholeFile("class ModelNew:\n    s = '''```'''\n")
    assert parse_answer(SHOWN) == WholeFile(SHOWN)


@pytest.mark.parametrize("text", ["", "I cannot do that.", "class ModelNew is what you need"])
def test_an_answer_without_a_program_is_refused(text: str) -> None:
    with pytest.raises(InvalidCandidate, match="holds no program"):
        parse_answer(text)


def test_edits_are_found_wherever_they_stand_in_an_answer() -> None:
    text = f"Because:\n```\n{edit('        x = 1', '        x = 3')}\n{edit('        return 2', '')}```\n"
    assert parse_answer(text) == Edits((Edit("        x = 1", "        x = 3"), Edit("        return 2", "")))
    assert answered_source(text, SHOWN) == SHOWN.replace("x = 1", "x = 3").replace("        return 2\n", "")
    with pytest.raises(InvalidCandidate, match="1 of 2 edits are not complete"):
        parse_answer(edit("a", "b") + "<<<<<<< SEARCH\nc\n")


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("        x = 1   ", "        x = 3"),  # blanks at the end
        ("x = 1\nreturn x", "x = 3\nreturn x"),  # indentation lost
        ("            x = 1", "            x = 3"),  # too much of it
        ("        x=1", "        x = 3"),  # blanks within
        ("\n        x = 1\n", "        x = 3"),  # empty lines around
    ],
)
def test_an_edit_that_is_off_by_blanks_is_mended(old: str, new: str) -> None:
    assert apply_edits(SHOWN, [Edit(old, new)]) == SHOWN.replace("x = 1", "x = 3")


@pytest.mark.parametrize(
    ("old", "words"),
    [
        ("        x = 11", "edit 1 of 1 does not apply: 'x = 11' is not in the program; closest is line 6, 'x = 1'"),
        ("        x = 1\n        y = 2", "its first line is line 6, but the lines after it differ"),
        ("    def", "does not apply"),
        ("", "has an empty search text"),
        ("import triton_language", "nothing like"),
    ],
)
def test_an_edit_that_does_not_apply_is_named(old: str, words: str) -> None:
    with pytest.raises(InvalidCandidate) as refused:
        apply_edits(SHOWN, [Edit(old, "z")])
    assert words in refused.value.sentence or (
        "does not apply" in refused.value.sentence and words != "has an empty search text"
    )


def test_an_edit_that_fits_twice_is_refused() -> None:
    with pytest.raises(InvalidCandidate, match=r"fits 2 places \(lines 1, 3\)"):
        apply_edits("a = 1\nb\na = 1\n", [Edit("a = 1", "c")])


@given(
    st.lists(st.text("abc ", min_size=1).filter(str.strip), min_size=1, unique_by=lambda t: "".join(t.split())),
    st.data(),
)
def test_replacing_a_line_by_itself_changes_nothing(lines: list[str], data: st.DataObject) -> None:
    source, line = "\n".join(lines), data.draw(st.sampled_from(lines))
    assert apply_edits(source, [Edit(line, line)]) == source


def test_what_kind_of_change_it_is() -> None:
    before = 'from k import TunableSpace, Choice\nTUNABLES = TunableSpace({"B": Choice(1, 2)})\nCONFIG = TUNABLES.default\nS = """\nfor (i = 0; i < 4; i++)\n"""\n'
    assert change_between(before, "# remark\n" + before) is Change.NOTHING
    assert change_between(before, before.replace("TUNABLES.default", '{"B": 2}')) is Change.NOTHING
    assert change_between(before, before.replace("Choice(1, 2)", "Choice(1, 2, 4)")) is Change.TUNABLES
    assert change_between(before, before.replace("i < 4", "i < 8")) is Change.NUMBERS
    assert change_between(before, before.replace("i++", "i--")) is Change.PROGRAM
    assert change_between(before, "not python (") is Change.PROGRAM
