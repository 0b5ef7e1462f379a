"""Runs that were really set up and searched, judged by a stand-in that times nothing: all it says follows from the text."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest

from kernelevolve import session
from kernelevolve.candidates import Candidate
from kernelevolve.judge.verdict import Effort, Verdict, VerdictKind
from kernelevolve.problems import Problem
from kernelevolve.run import Run
from kernelevolve.skills import ProblemClass
from stored_runs import BASELINES, _verdict

SOFTMAX, SQUARES = "torch.softmax(x, -1)", "(x * x).mean(-1)"


def problem(expression: str, *, name: str = "rows", rows: int = 32, columns: int = 64) -> Problem:
    """A function of one matrix."""
    source = (
        "import torch\n\n\nclass Model(torch.nn.Module):\n    def forward(self, x):\n"
        f"        return {expression}\n\n\ndef get_inputs():\n    return [torch.randn({rows}, {columns})]\n"
    )
    return Problem(name=name, source=source)


def problem_class(digest: str = "a", target: str = "cpu", **other: Any) -> ProblemClass:
    """The class of a made-up problem."""
    given = {"operators": {"mm": 0.8, "relu": 0.2}, "tensors": {"input 2d": 1}, "size_band": 6, "dtypes": ("float32",)}
    return ProblemClass(digest=digest, target=target, **{**given, **other})


class Judge:
    """Implements the Judge protocol: a fifth of all programs is wrong, the digest of a text says how fast it is."""

    def __init__(self, *, right: bool = True) -> None:
        self.right = right

    def evaluate(self, candidate: Candidate, effort: Effort = Effort.SCREEN) -> Verdict:
        number = int(candidate.source_digest[:8], 16)
        kind = VerdictKind.CORRECT if self.right and number % 5 else VerdictKind.WRONG
        return _verdict(candidate, kind, effort, 1e-4 * (1 + number % 97 / 97), random.Random(number))

    def baselines(self) -> dict[str, float | None]:
        return dict(BASELINES)

    def close(self) -> None:
        pass


def searched(monkeypatch: pytest.MonkeyPatch, wanted: Problem, out: Path, *, right: bool = True, **options: Any) -> Run:
    """A whole run of ``optimize``, with the built-in operators and all that surrounds them."""
    monkeypatch.setattr(session, "open_judge", lambda *_, **__: Judge(right=right))
    return session.optimize(wanted, target="cpu", evaluations=options.pop("evaluations", 6), out=out, **options)
