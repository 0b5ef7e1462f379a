"""Source of a problem: its module constants, and its text with some of them replaced. Nothing here runs the text."""

from __future__ import annotations

import ast

from kernelevolve.problems.problem import Problem

Constant = int | float | str | bool

BATCH_NAMES = ("batch_size", "batch", "BATCH", "BATCH_SIZE", "B", "b", "num_samples", "N", "n", "M", "m")
"""Names by which problem files call their batch, the usual ones first."""


def constants(source: str) -> dict[str, Constant]:
    """Module-level names assigned a literal number, text or bool, in order of appearance."""
    return {name: value for name, (value, _) in _assignments(source).items()}


def effective_source(problem: Problem) -> str:
    """The text that is run: the problem's source with its overrides written in; line numbers stay as they are."""
    if not problem.overrides:
        return problem.source
    lines = problem.source.splitlines(keepends=True)
    for name, (_, node) in _assignments(problem.source).items():
        if name not in problem.overrides:
            continue
        at = node.lineno - 1
        line = lines[at].encode()
        text = repr(problem.overrides[name]).encode()
        lines[at] = (line[: node.col_offset] + text + line[node.end_col_offset :]).decode()
    return "".join(lines)


def _assignments(source: str) -> dict[str, tuple[Constant, ast.expr]]:
    found: dict[str, tuple[Constant, ast.expr]] = {}
    for node in ast.parse(source).body:
        if not isinstance(node, ast.Assign) or len(node.targets) != 1 or not isinstance(node.targets[0], ast.Name):
            continue
        try:
            value = ast.literal_eval(node.value)
        except ValueError:
            continue
        if isinstance(value, (int, float, str, bool)) and node.value.lineno == node.value.end_lineno:
            found[node.targets[0].id] = (value, node.value)
    return found
