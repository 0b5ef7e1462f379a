"""Operators of ranking and recommendation models, each a problem file that can be read and run on its own."""

from __future__ import annotations

from kernelevolve.problems.suites import problem_names


def names() -> list[str]:
    """The problems of this suite."""
    return problem_names("ranking")
