"""Module-level constants: found, replaced, scaled."""

from __future__ import annotations

import ast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kernelevolve.errors import InvalidProblem
from kernelevolve.problems import Problem
from kernelevolve.problems.source import constants, effective_source, with_overrides, with_scaled_batch

SOURCE = '''"""Größe."""
import torch
batch_size = 128  # rows
M, N = 16, 1024 * 2
é = "ü"; width: int = 4 * 4
sizes = [
    1,
    2,
]
rate = (
    0.5
)
shape = (batch_size, width)
flag = True
def f():
    batch_size = 3
    return batch_size
'''


def problem(source: str = SOURCE) -> Problem:
    return Problem(name="p", source=source)


def run(source: str) -> dict[str, object]:
    namespace: dict[str, object] = {}
    exec(source.replace("import torch\n", "\n"), namespace)
    return namespace


def test_constants_are_literals_and_arithmetic_on_them() -> None:
    found = {"batch_size": 128, "M": 16, "N": 2048, "é": "ü", "width": 16, "rate": 0.5, "flag": True}
    assert constants(SOURCE) == found


def test_overrides_reach_everything_computed_from_them_and_nothing_else() -> None:
    changed = with_overrides(problem(), {"batch_size": 4, "N": 7, "width": 9, "é": "ö", "flag": False, "rate": 2})
    namespace = run(effective_source(changed))
    assert namespace["shape"] == (4, 9)
    assert (namespace["M"], namespace["N"], namespace["é"]) == (16, 7, "ö")
    assert (namespace["flag"], namespace["rate"], namespace["sizes"]) == (False, 2, [1, 2])
    assert namespace["f"]() == 3  # type: ignore[operator]


def test_overrides_keep_every_line_at_its_number_even_if_a_value_spans_lines() -> None:
    changed = effective_source(with_overrides(problem(), {"sizes": 5, "rate": 1.5, "batch_size": 1}))
    assert run(changed)["sizes"] == 5
    lines = {node.name: node.lineno for node in ast.parse(changed).body if isinstance(node, ast.FunctionDef)}
    assert lines == {"f": 15}


@given(st.one_of(st.integers(), st.floats(allow_nan=False, allow_infinity=False), st.text(), st.booleans()))
def test_any_constant_comes_back_as_it_was_set(value: int | float | str | bool) -> None:
    assert run(effective_source(with_overrides(problem(), {"N": value})))["N"] == value


def test_overrides_change_the_digest_and_leave_the_source() -> None:
    changed = with_overrides(problem(), {"N": 7})
    assert changed.digest != problem().digest
    assert changed.source == SOURCE
    assert with_overrides(changed, {"N": 8}).digest != changed.digest


def test_an_unknown_constant_is_refused_with_those_that_exist() -> None:
    with pytest.raises(InvalidProblem, match=r"no module-level constant 'batch'.*batch_size=128, M=16, N=2048"):
        with_overrides(problem(), {"batch": 4})


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("N = 8\nbatch_size = 64\n", {"batch_size": 16}),
        ("hidden = 3\nM = 64 * 2\nN = 8\n", {"M": 32}),
        ("N = 16\nM = 1024\n", {"N": 4}),
        ("b = 8\nj = 16\n", {"b": 2}),
        ("batch_size = 2\n", {"batch_size": 1}),
    ],
)
def test_scale_divides_the_batch(source: str, expected: dict[str, int]) -> None:
    assert with_scaled_batch(problem(source), 0.25).overrides == expected


def test_scale_starts_from_an_override() -> None:
    assert with_scaled_batch(with_overrides(problem(), {"batch_size": 40}), 0.1).overrides == {"batch_size": 4}


@pytest.mark.parametrize("source", ["hidden = 3\n", "batch_size = 2.5\n", "batch_size = True\n", "x = []\n"])
def test_scale_without_a_batch_points_to_set(source: str) -> None:
    with pytest.raises(InvalidProblem, match="no batch constant to scale; use --set NAME=VALUE"):
        with_scaled_batch(problem(source), 0.5)


@pytest.mark.parametrize("scale", [0.0, -1.0, float("nan")])
def test_a_scale_that_leaves_nothing_is_refused(scale: float) -> None:
    with pytest.raises(InvalidProblem, match="leaves no batch"):
        with_scaled_batch(problem(), scale)
