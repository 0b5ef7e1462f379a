"""Source of a problem: its module-level constants, and its text with some of them replaced. Nothing here runs the text.

A KernelBench file keeps its sizes in constants such as ``batch_size = 128``. Replacing one keeps every line at its
number, so messages still point into the file as it was read.
"""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable, Iterator, Mapping
from typing import Any, TypeAlias

from kernelevolve.errors import InvalidProblem
from kernelevolve.problems.problem import Problem

Constant: TypeAlias = int | float | str | bool

BATCH_NAMES = ("batch_size", "batch", "BATCH_SIZE", "BATCH", "bs", "B", "b")
"""Names that mean a batch wherever they stand: of KernelBench's 250 problems 232 have ``batch_size``, one has ``b``."""
ROW_NAMES = ("M", "N", "m", "n", "rows", "num_rows", "num_samples")
"""Names of a leading dimension in files without a batch, such as matrix products; the first in the file is taken."""

_ARITHMETIC: dict[type[ast.operator], Callable[[Any, Any], Any]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.FloorDiv: operator.floordiv,
}


def constants(source: str) -> dict[str, Constant]:
    """Module-level constants that are numbers, strings or bools, also written as arithmetic such as ``1024 * 2``."""
    found: dict[str, Constant] = {}
    for name, expression in _assignments(source):
        value = _evaluate(expression)
        if isinstance(value, (int, float, str)):
            found[name] = value
        else:
            found.pop(name, None)
    return found


def with_overrides(problem: Problem, overrides: Mapping[str, Constant]) -> Problem:
    """The problem with ``overrides`` recorded; InvalidProblem that lists the constants if a name is not assigned."""
    known = {name for name, _ in _assignments(problem.source)}
    for name in overrides:
        if name not in known:
            raise InvalidProblem(
                f"there is no module-level constant {name!r} to set", path=problem.path or problem.name,
                fix=_offer(problem.source),
            )  # fmt: skip
    # Not model_copy: it would keep the digest that was computed before.
    return Problem.model_validate({**problem.model_dump(), "overrides": {**problem.overrides, **overrides}})


def with_scaled_batch(problem: Problem, scale: float) -> Problem:
    """The problem with its batch constant multiplied by ``scale``, rounded down, but at least 1.

    The batch is the first of BATCH_NAMES that is an integer constant, else the file's first constant in ROW_NAMES.
    Raises InvalidProblem if there is none.
    """
    place = problem.path or problem.name
    if not scale > 0:
        raise InvalidProblem(f"a scale of {scale} leaves no batch", path=place, fix="use a number such as 0.125")
    known = {**constants(problem.source), **problem.overrides}
    integers = {name: value for name, value in known.items() if type(value) is int}
    batches = [n for n in BATCH_NAMES if n in integers] or [n for n in integers if n in ROW_NAMES]
    if not batches:
        raise InvalidProblem(
            "there is no batch constant to scale", path=place, fix=f"use --set NAME=VALUE; {_offer(problem.source)}"
        )
    return with_overrides(problem, {batches[0]: max(1, int(integers[batches[0]] * scale))})


def effective_source(problem: Problem) -> str:
    """The text that is run: ``problem.source`` with the overrides written in; every line keeps its number."""
    if not problem.overrides:
        return problem.source
    # ast counts columns in UTF-8 bytes.
    lines = [line.encode() for line in problem.source.splitlines(keepends=True)]
    found = {(e.lineno, e.col_offset): (e, name) for name, e in _assignments(problem.source)}
    for _, (expression, name) in sorted(found.items(), reverse=True):
        if name not in problem.overrides:
            continue
        first, last = expression.lineno - 1, (expression.end_lineno or expression.lineno) - 1
        text = repr(problem.overrides[name])
        if last > first:
            text = f"({text}" + "\n" * (last - first) + ")"
        line = lines[first][: expression.col_offset] + text.encode() + lines[last][expression.end_col_offset :]
        lines[first : last + 1] = line.splitlines(keepends=True)
    return b"".join(lines).decode()


def _assignments(source: str) -> Iterator[tuple[str, ast.expr]]:
    """Name and value of every plain module-level assignment, in order; ``a, b = 1, 2`` gives two."""
    for node in ast.parse(source).body:
        if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name) and node.value is not None:
            yield node.target.id, node.value
        elif isinstance(node, ast.Assign):
            for target in node.targets:
                if isinstance(target, ast.Name):
                    yield target.id, node.value
                elif isinstance(target, ast.Tuple) and isinstance(node.value, ast.Tuple):
                    for name, value in zip(target.elts, node.value.elts, strict=False):
                        if isinstance(name, ast.Name):
                            yield name.id, value


def _evaluate(expression: ast.expr) -> Any:
    """The value of a literal or of arithmetic on literals; None for anything else."""
    if isinstance(expression, ast.BinOp) and type(expression.op) in _ARITHMETIC:
        left, right = _evaluate(expression.left), _evaluate(expression.right)
        if not (isinstance(left, (int, float)) and isinstance(right, (int, float))):
            return None
        try:
            return _ARITHMETIC[type(expression.op)](left, right)
        except ZeroDivisionError:
            return None
    try:
        return ast.literal_eval(expression)
    except (ValueError, TypeError):
        return None


def _offer(source: str) -> str:
    known = constants(source)
    if not known:
        return "the file has no such constants; write its sizes as module-level constants"
    return "the file has " + ", ".join(f"{name}={value!r}" for name, value in known.items())
