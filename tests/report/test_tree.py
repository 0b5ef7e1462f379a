"""Layout of the search graph: readable whatever its shape."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from kernelevolve.report.contents import collect
from kernelevolve.report.tree import lay_out, tidy
from stored_runs import make_run


@st.composite
def forests(draw: st.DrawFn) -> list[int | None]:
    parents: list[int | None] = []
    for number in range(draw(st.integers(0, 40))):
        parents.append(draw(st.none() | st.integers(0, number - 1)) if number else None)
    return parents


@given(forests())
def test_no_two_nodes_of_a_row_touch_and_parents_are_centred(parents: list[int | None]) -> None:
    columns, rows = tidy(parents)
    by_row: dict[int, list[float]] = {}
    for column, row in zip(columns, rows, strict=True):
        by_row.setdefault(row, []).append(column)
    for placed in by_row.values():
        placed.sort()
        assert all(b - a >= 1 - 1e-9 for a, b in pairwise(placed))
    for node in range(len(parents)):
        children = [columns[c] for c, parent in enumerate(parents) if parent == node]
        if children:
            assert abs(columns[node] - (children[0] + children[-1]) / 2) < 1e-9
    assert not columns or min(columns) >= -1e-9


def test_a_chain_of_thousands_needs_no_recursion() -> None:
    columns, rows = tidy([None, *range(3000)])
    assert set(columns) == {0.0}
    assert rows[-1] == 3000


def test_every_node_is_inside_the_drawing_and_the_best_is_marked(tmp_path: Path) -> None:
    contents = collect(make_run(tmp_path, 80))
    tree = lay_out(contents)
    assert len(tree.spots) == 80
    assert all(s.x - s.radius > 0 and s.x + s.radius < tree.width for s in tree.spots)
    assert all(s.y - s.radius > 0 and s.y + s.radius < tree.height for s in tree.spots)
    assert [s.entry.node.id for s in tree.spots if s.best] == [contents.lineage[-1].node.id]
    assert sum(e.winning for e in tree.edges) == len(contents.lineage) - 1
    fast, slow = (max(tree.spots, key=lambda s: s.entry.node.fitness), min(
        (s for s in tree.spots if s.entry.node.correct), key=lambda s: s.entry.node.fitness))  # fmt: skip
    assert fast.radius > slow.radius
