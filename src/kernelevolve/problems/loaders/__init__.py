"""Loaders: from a path, a name, or a module and its inputs, to a Problem. Importing this needs no torch."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kernelevolve.errors import InvalidProblem
from kernelevolve.problems.loaders.loader import Loader
from kernelevolve.problems.problem import Problem
from kernelevolve.problems.source import Constant, with_overrides, with_scaled_batch
from kernelevolve.problems.suites import SUITES, problem_names
from kernelevolve.registry import Registry

if TYPE_CHECKING:
    from torch import nn

LOADERS: Registry[Loader] = Registry(
    "loader", "kernelevolve.problems.loaders", "LOADER", frozenset({"loader", "function"})
)

__all__ = ["LOADERS", "Loader", "from_module", "load_problem"]


def load_problem(
    name: str | Path, *, overrides: Mapping[str, Constant] | None = None, scale: float | None = None
) -> Problem:
    """The problem in a file, or one that is shipped, such as ``ranking/rmsnorm_residual``.

    ``overrides`` replaces module-level constants by name; ``scale`` multiplies the batch constant (0.25 is a quarter).
    Raises InvalidProblem.
    """
    for loader in map(LOADERS.get, LOADERS):
        if loader.matches(str(name)):
            problem = with_overrides(loader.load(str(name)), overrides or {})
            return problem if scale is None else with_scaled_batch(problem, scale)
    shipped = ", ".join(f"{suite}/{member}" for suite in SUITES for member in problem_names(suite))
    raise InvalidProblem(
        f"there is no problem file or shipped problem {str(name)!r}", fix=f"give the path of a .py file, or {shipped}"
    )


def from_module(
    module_or_function: nn.Module | Callable[..., Any],
    example_inputs: Any,
    *,
    store_dir: Path,
    name: str | None = None,
    example_kwargs: Mapping[str, Any] | None = None,
) -> Problem:
    """A problem made of a module or function and example inputs: a tuple or list of its arguments, or one tensor.

    The module with its weights and the inputs are pickled into ``store_dir`` under their hash, and the text of the
    problem loads them from there. The values of ``example_kwargs`` follow the positional arguments, so a kernel takes
    all by position. Inputs are redrawn for every check, see ``payload.redraw``. Raises InvalidProblem.
    """
    from kernelevolve.problems.loaders.function import problem_from_module

    return problem_from_module(module_or_function, example_inputs, example_kwargs or {}, store_dir=store_dir, name=name)
