"""Loader: how one kind of problem is found by name and read as text."""

from __future__ import annotations

from typing import Protocol

from kernelevolve.problems.problem import Problem


class Loader(Protocol):
    """One source of problems. The module ``loaders/<name>.py`` holds ``LOADER``, an instance of this."""

    def matches(self, name: str) -> bool:
        """True if a path or name given by the user is this loader's to read; needs no torch and reads no file."""
        ...

    def load(self, name: str) -> Problem:
        """The problem of that path or name, checked as far as that goes without running it. Raises InvalidProblem."""
        ...
