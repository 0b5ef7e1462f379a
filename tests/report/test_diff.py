"""Source differences: both sides can be read back from what is shown."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from kernelevolve.report.contents import collect
from kernelevolve.report.diff import config_changes, difference, steps
from stored_runs import make_run

LINES = st.lists(st.text(alphabet="ab =+*", max_size=12), max_size=30).filter(
    lambda lines: not lines or lines[-1] != ""
)


@given(LINES, LINES)
def test_applying_the_hunks_gives_the_new_text(old: list[str], new: list[str]) -> None:
    rebuilt: list[str] = []
    at = 0
    for hunk in difference("\n".join(old), "\n".join(new)):
        for line in hunk:
            text = "".join(piece.text for piece in line.pieces)
            if line.old is not None:
                while at < line.old - 1:
                    rebuilt.append(old[at])
                    at += 1
                assert text == old[at]
                at += 1
            if line.sign != "-":
                rebuilt.append(text)
                assert line.new == len(rebuilt)
    rebuilt += old[at:]
    assert rebuilt == new


def test_what_changed_inside_a_line_is_marked_and_nothing_else() -> None:
    (hunk,) = difference("a\nfor i in range(4):\nb", "a\nfor i in range(8):\nb")
    marked = {line.sign: [p.text for p in line.pieces if p.changed] for line in hunk if line.sign != " "}
    assert marked == {"-": ["4"], "+": ["8"]}


def test_a_retune_shows_as_changed_numbers() -> None:
    changes = config_changes({"BLOCK": 64, "GONE": 1}, {"BLOCK": 128, "NEW": True})
    assert [(c.name, c.old, c.new) for c in changes] == [
        ("BLOCK", "64", "128"),
        ("NEW", None, "True"),
        ("GONE", "1", None),
    ]


def test_the_steps_lead_from_a_draft_to_the_best_node(tmp_path: Path) -> None:
    contents = collect(make_run(tmp_path, 60))
    path = steps(contents)
    assert path
    assert path[0].parent.node.parents == ()
    assert contents.best is not None
    assert path[-1].child.node.id == contents.best.node.id
    assert all(a.child is b.parent for a, b in pairwise(path))
    assert all(step.added and step.removed for step in path)
