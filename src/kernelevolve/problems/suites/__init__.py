"""Suites of problems that are shipped with the package: one folder a suite, one file a problem.

Every file is in the KernelBench format and runs alone. Its functions may take ``device_type`` ('cpu' or 'cuda'), so
that a CPU gets sizes that it finishes in milliseconds, and a GPU the published ones in their published dtype.
"""

from __future__ import annotations

from pathlib import Path

from kernelevolve.errors import InvalidProblem

_HERE = Path(__file__).parent
SUITES = tuple(sorted(p.name for p in _HERE.iterdir() if p.is_dir() and not p.name.startswith("_")))


def problem_names(suite: str) -> list[str]:
    """The problems of a suite, in alphabetical order."""
    return sorted(p.stem for p in (_HERE / suite).glob("*.py") if not p.name.startswith("_"))


def problem_path(suite: str, name: str) -> Path:
    """The file of a shipped problem; InvalidProblem if there is none of that name."""
    path = _HERE / suite / f"{name}.py"
    if not path.is_file():
        raise InvalidProblem(
            f"the suite {suite} has no problem {name!r}", fix=f"use one of: {', '.join(problem_names(suite))}"
        )
    return path
