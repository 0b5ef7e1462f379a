"""Problems and candidates that the tests of the judge share."""

from __future__ import annotations

from pathlib import Path

from kernelevolve.candidates import Candidate
from kernelevolve.judge.clocks import TOO_BUSY
from kernelevolve.judge.local import LocalJudge
from kernelevolve.judge.settings import JudgeSettings
from kernelevolve.judge.verdict import Effort, Verdict
from kernelevolve.problems import Problem
from kernelevolve.targets import TARGETS

SCALE = """
import torch

class Model(torch.nn.Module):
    def __init__(self, features):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.randn(features))

    def forward(self, x):
        return torch.relu(x * self.weight) + x

def get_inputs():
    return [torch.randn(64, 256)]

def get_init_inputs():
    return [256]
"""

HEAD = """
import os, sys, time
import torch

class ModelNew(torch.nn.Module):
    def __init__(self, features):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.empty(features))
        self.calls = 0

    def right(self, x):
        return torch.relu(x * self.weight) + x

    def forward(self, x):
"""


def candidate(forward: str, head: str = HEAD) -> Candidate:
    """A candidate for SCALE with this body of ``forward``; ``self.right(x)`` is the right answer."""
    body = "\n".join("        " + line for line in forward.strip("\n").splitlines())
    return Candidate(source=head + body + "\n", language="cpp")


class PatientJudge(LocalJudge):
    """Asks again where other work, such as the tests beside it, kept the machine too busy for any verdict on times."""

    def evaluate(self, candidate: Candidate, effort: Effort = Effort.SCREEN) -> Verdict:
        verdict = super().evaluate(candidate, effort)
        for _ in range(4):
            if TOO_BUSY not in verdict.reason:
                break
            verdict = super().evaluate(candidate, effort)
        return verdict


def quick_judge(workspace: Path, source: str = SCALE, **settings: object) -> LocalJudge:
    """A judge on the CPU that times against eager only and gives up early."""
    defaults: dict[str, object] = {"compile_seconds": 4.0, "run_seconds": 2.0, "baselines": ("eager",)}
    chosen = JudgeSettings.model_validate(defaults | settings)
    problem = Problem(name="scale", source=source)
    return PatientJudge(problem, TARGETS.get("cpu"), workspace=workspace, settings=chosen)
