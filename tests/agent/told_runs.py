"""Runs of which every node was told, judged by a stand-in that times nothing."""

from __future__ import annotations

import random
from pathlib import Path

from kernelevolve.candidates import Candidate
from kernelevolve.judge.verdict import Effort, Verdict, VerdictKind
from kernelevolve.problems import Problem
from kernelevolve.search.ledger import Budget
from kernelevolve.search.policies import POLICIES
from kernelevolve.search.settings import SearchSettings
from kernelevolve.search.turns import Told, Turns, told_candidate
from kernelevolve.store import RunStatus, Store
from kernelevolve.targets import TARGETS
from stored_runs import BASELINES, REFERENCE, _verdict

PROGRAM = (
    "import torch\nfrom kernelevolve.candidates.space import PowerOfTwo, TunableSpace\n"
    'TUNABLES = TunableSpace({{"BLOCK": PowerOfTwo(16, 1024, 64)}})\nCONFIG = TUNABLES.default\n\n\n'
    "class ModelNew(torch.nn.Module):\n    def forward(self, x):\n        return step_{0}(x)\n"
)


class StandIn:
    """Implements the Judge protocol: 'broken' in a text is wrong, its digits and BLOCK say how fast it is."""

    def __init__(self) -> None:
        self.calls: list[tuple[Candidate, Effort]] = []
        self.fails = False

    def evaluate(self, candidate: Candidate, effort: Effort = Effort.SCREEN) -> Verdict:
        self.calls.append((candidate, effort))
        kind = VerdictKind.WRONG if "broken" in candidate.source else VerdictKind.CORRECT
        kind = VerdictKind.INFRASTRUCTURE if self.fails else kind
        digits = sum(map(int, filter(str.isdigit, candidate.source.partition("step_")[2])))
        seconds = 1e-4 * (1 + 64 / int(candidate.config.get("BLOCK", 64))) / (1 + digits)
        return _verdict(candidate, kind, effort, seconds, random.Random(0))

    def baselines(self) -> dict[str, float | None]:
        return dict(BASELINES)

    def close(self) -> None:
        pass


class Telling:
    """One run and the judge that it is told to."""

    def __init__(self, workspace: Path, evaluations: int = 20, seconds: float = 600, quick_trials: int = 0) -> None:
        self.store, self.judge = Store(workspace), StandIn()
        self.settings = SearchSettings(
            budget=Budget(evaluations=evaluations, seconds=seconds), policy="greedy", operators=("synthesize",),
            quick_trials=quick_trials,
        )  # fmt: skip
        self.target = TARGETS.get("cpu")
        self.record = self.store.create_run(
            Problem(name="softmax", source=REFERENCE), "cpu", device=self.target.device_name(),
            settings=self.settings.model_dump(mode="json"),
        )  # fmt: skip
        self.store.set_baselines(self.record.id, BASELINES)
        self.store.set_status(self.record.id, RunStatus.INTERRUPTED)
        self.record = self.store.run(self.record.id)

    def turns(self) -> Turns:
        """New ones, as in another process."""
        return Turns(self.store, self.record, self.settings, POLICIES.get("greedy"), self.target)

    def tell(self, source: str, parents: list[int] | None = None) -> Told:
        return self.turns().tell(told_candidate(source, ["cpp"]), lambda: self.judge, parents)


def program(name: int | str) -> str:
    return PROGRAM.format(name)


def told_run(workspace: Path) -> Telling:
    """A run of one node."""
    telling = Telling(workspace)
    telling.tell(program(1))
    return telling
