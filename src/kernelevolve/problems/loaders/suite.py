"""Problems that are shipped with the package, by name: ``ranking/rmsnorm_residual``."""

from __future__ import annotations

from pathlib import Path

from kernelevolve.problems.loaders.kernelbench import read_file
from kernelevolve.problems.problem import Problem
from kernelevolve.problems.suites import SUITES, problem_path


class SuiteLoader:
    """Reads ``<suite>/<problem>``, unless there is a file of that path."""

    def matches(self, name: str) -> bool:
        suite, slash, _ = name.partition("/")
        return bool(slash) and suite in SUITES and not Path(name).exists()

    def load(self, name: str) -> Problem:
        suite, _, member = name.partition("/")
        return read_file(problem_path(suite, member.replace("-", "_")))


LOADER = SuiteLoader()
