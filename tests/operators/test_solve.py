"""Index equations: digits of a variable are found, and put together again when the solution is checked."""

from __future__ import annotations

from itertools import product

import pytest

from kernelevolve.operators.synthesis.fuse.solve import solve
from kernelevolve.operators.synthesis.index import Index, Size, Var

ROWS, TABLES, WIDTH = Var("b", Index.of(6)), Var("t", Index.of(4)), Var("w", Index.of(5))


def variable(name: str, extent: int | Index) -> Index:
    return Index.of(Var(name, Index.of(extent)))


def test_unknowns_that_are_digits_of_a_position_are_found() -> None:
    position = variable("q", 24)
    solution = solve([(Index.of(TABLES) * 6 + Index.of(ROWS), position)], [ROWS, TABLES])
    assert solution == {ROWS: position % 6, TABLES: position // 6}


def test_three_digits_too_and_sizes_that_only_the_run_knows() -> None:
    position = variable("q", 120)
    left = (Index.of(TABLES) * 6 + Index.of(ROWS)) * 5 + Index.of(WIDTH)
    solution = solve([(left, position)], [ROWS, TABLES, WIDTH])
    assert solution == {WIDTH: position % 5, ROWS: position // 5 % 6, TABLES: position // 30}
    size = Index.of(Size("s"))
    row = Var("r", size)
    place = variable("q", size * 4)
    assert solve([(Index.of(TABLES) * size + Index.of(row), place)], [row, TABLES]) == {
        row: place % size,
        TABLES: place // size,
    }


@pytest.mark.parametrize("strides", list(product((1, 6, 7), (4, 6, 9))))
def test_a_solution_that_does_not_hold_everywhere_is_none(strides: tuple[int, int]) -> None:
    outer, inner = strides
    left = Index.of(TABLES) * outer + Index.of(ROWS) * inner
    position = variable("q", 24)
    solution = solve([(left, position)], [ROWS, TABLES])
    assert (solution is not None) == (strides == (1, 4))
