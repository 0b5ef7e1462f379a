"""Loaders: from a file, or a module and its inputs, to a Problem. Importing this needs no torch."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from kernelevolve.errors import InvalidProblem
from kernelevolve.problems.loaders.kernelbench import load_file
from kernelevolve.problems.problem import Problem
from kernelevolve.problems.suites import SUITES, problem_path

if TYPE_CHECKING:
    from collections.abc import Callable

    from torch import nn

    Override = int | float | str | bool

__all__ = ["from_module", "load_problem"]


def load_problem(
    name: str | Path, *, overrides: dict[str, Override] | None = None, scale: float | None = None
) -> Problem:
    """The problem in a file, or one that is shipped: ``ranking/rmsnorm_residual``.

    ``overrides`` replaces module constants by name, ``scale`` multiplies the batch. Raises InvalidProblem.
    """
    suite, _, member = str(name).partition("/")
    path = Path(name)
    if suite in SUITES and member and not path.exists():
        path = problem_path(suite, member.removesuffix(".py"))
    return load_file(path, overrides=overrides or {}, scale=scale)


def from_module(
    module: nn.Module | Callable[..., Any], example_inputs: Any, *, store_dir: Path, name: str | None = None
) -> Problem:
    """A problem made of a module or function and a tuple of example inputs; its payload is kept in ``store_dir``."""
    if isinstance(module, Problem):
        raise InvalidProblem("a Problem needs no example inputs", fix="pass it on its own")
    from kernelevolve.problems.loaders.function import problem_from_module

    return problem_from_module(module, example_inputs, store_dir=store_dir, name=name)
