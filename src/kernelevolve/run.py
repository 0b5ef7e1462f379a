"""Run: the handle of a stored run, live or long finished."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from pydantic import BaseModel, ConfigDict, Field

from kernelevolve.candidates import Candidate
from kernelevolve.judge.verdict import Clock, Effort, Speedup, Verdict
from kernelevolve.problems import Problem
from kernelevolve.search.control import best_of_n
from kernelevolve.search.graph import SearchGraph
from kernelevolve.search.node import Node
from kernelevolve.search.ranking import choose_best
from kernelevolve.store import RunRecord, RunStatus, Store, StoredNode, Timing

if TYPE_CHECKING:
    from torch import nn

BEST_DIRECTORY, KERNEL_FILE = "best", "kernel.py"


class SpeedupSummary(BaseModel):
    """Baseline time over kernel time, with its 95 % interval."""

    model_config = ConfigDict(frozen=True)

    value: float
    low: float
    high: float
    clock: Clock


class BestSummary(BaseModel):
    """The best kernel of a run."""

    model_config = ConfigDict(frozen=True)

    node: int
    verdict: str
    promoted: bool = Field(description="False: only the search's short timing stands behind the numbers")
    faster: bool = Field(description="True if a promotion found it faster than every baseline, interval included")
    language: str
    path: Path | None = Field(description="the kernel file; null before the run has ended")
    seconds: float | None = Field(description="seconds per call, geometric mean over the timed workloads")
    roofline_fraction: float | None
    speedup: dict[str, SpeedupSummary] = Field(description="by baseline; device time where there is one")
    baseline_seconds: dict[str, float] = Field(description="seconds per call, timed side by side with the kernel")
    notes: tuple[str, ...] = ()


class ControlSummary(BaseModel):
    """What independent drafts alone would have reached with as many evaluations."""

    model_config = ConfigDict(frozen=True)

    drafts: int = Field(description="independent drafts that were judged")
    best_draft: float | None = Field(description="speed-up of the best of them, as the search measured it")
    estimate: float | None = Field(description="speed-up of the best of as many drafts as evaluations; estimated")


class ModelsSummary(BaseModel):
    """What language models cost."""

    model_config = ConfigDict(frozen=True)

    requests: int = Field(description="that were answered")
    input_tokens: int
    output_tokens: int
    dollars: float = Field(description="0 where no price is known")


class RunSummary(BaseModel):
    """What a run came to; printed as one JSON document by ``--json``."""

    model_config = ConfigDict(frozen=True)

    run: str
    problem: str
    target: str
    device: str
    status: RunStatus
    reason: str = Field(description="why the search ended")
    evaluations: int = Field(description="judged nodes")
    trials: int = Field(description="timings of configurations inside them, counted apart")
    seconds: float = Field(description="wall time of all processes of the run")
    models: ModelsSummary | None = Field(default=None, description="null: no language model was asked")
    verdicts: dict[str, int] = Field(description="evaluations by verdict")
    baselines: dict[str, float | None] = Field(description="seconds per call at the start; null: it could not run")
    best: BestSummary | None
    control: ControlSummary
    environment: dict[str, str] = Field(default_factory=dict, description="of the best kernel's timing session")


class BestKernel:
    """The best kernel of a run: one that won its promotion where there is one, else the fastest correct one."""

    def __init__(self, run: Run, node: Node, verdict: Verdict) -> None:
        self._run = run
        self.node = node
        self.verdict = verdict
        """The promotion's where there was one, else the screen's."""

    @cached_property
    def candidate(self) -> Candidate:
        """Source, language and configuration."""
        return self._run.candidate(self.node.id)

    @property
    def path(self) -> Path | None:
        """The kernel file with the configuration written into it; None before the run has ended."""
        path = self._run.directory / BEST_DIRECTORY / KERNEL_FILE
        return path if path.exists() else None

    @property
    def promoted(self) -> bool:
        """True if the verdict is a promotion's."""
        return self.verdict.effort is Effort.PROMOTION

    @property
    def speedups(self) -> dict[str, Speedup]:
        """By baseline; by device time where it was taken, else by wall time."""
        return self.verdict.speedups

    def load(self, module: nn.Module | None = None, *, seed: int = 0) -> nn.Module:
        """The kernel as a module on the run's device, in eval mode unless the problem is about training.

        It gets the weights of ``module``, which must have the reference's state dict, or else fresh ones drawn with
        ``seed``. The kernel's code runs in this process. Raises InvalidRequest if the weights do not fit.
        """
        import torch

        from kernelevolve.loading import load_kernel
        from kernelevolve.targets import resolve

        device = torch.device(resolve(self._run.target).device_type)
        return load_kernel(self._run.problem, self.candidate, device, module, seed=seed)

    def summary(self) -> BestSummary:
        """The numbers that a user is shown."""
        verdict, measurement = self.verdict, self.verdict.measurement
        baselines = {} if measurement is None else {name: measurement.seconds(name) for name in self.speedups}
        return BestSummary(
            node=self.node.id,
            verdict=verdict.kind.value,
            promoted=self.promoted,
            faster=verdict.wins,
            language=self.candidate.language,
            path=self.path,
            seconds=verdict.seconds,
            roofline_fraction=verdict.roofline_fraction,
            speedup={
                name: SpeedupSummary(value=s.value, low=s.low, high=s.high, clock=s.clock)
                for name, s in self.speedups.items()
            },
            baseline_seconds=baselines,
            notes=verdict.notes,
        )


class Run:
    """One search, read from its workspace. Nothing is cached but what cannot change."""

    def __init__(self, store: Store, run_id: str) -> None:
        self.store = store
        """Where the run is kept."""
        self.id = store.find_run(run_id).id

    @property
    def record(self) -> RunRecord:
        """The run as stored."""
        return self.store.run(self.id)

    @property
    def problem(self) -> Problem:
        """What was to be computed."""
        return self.record.problem

    @property
    def target(self) -> str:
        """Name of the target."""
        return self.record.target

    @property
    def directory(self) -> Path:
        """Where the kernel, its certificate and the report are."""
        return self.store.workspace / self.id

    @property
    def interrupted(self) -> bool:
        """True if the search can be resumed because it was stopped or killed before its end."""
        return self.record.status is not RunStatus.FINISHED

    def nodes(self) -> Iterator[Node]:
        """The judged candidates in the order of insertion."""
        return (stored.node for stored in self.store.nodes(self.id))

    def history(self) -> Iterator[StoredNode]:
        """The nodes with the time at which each was inserted."""
        return self.store.nodes(self.id)

    def candidate(self, node_id: int) -> Candidate:
        """A node's source, language and configuration."""
        return self.store.candidate(self.id, node_id)

    def verdicts(self, node_id: int) -> list[Verdict]:
        """All verdicts on a node, in the order given."""
        return self.store.verdicts(self.id, node_id)

    def trials(self, node_id: int) -> list[Timing]:
        """The configurations of a node that were timed, with seconds per call (None: it failed)."""
        return self.store.trials(self.id, node_id)

    @property
    def best(self) -> BestKernel | None:
        """The best kernel; None if nothing was correct."""
        promotions = self.store.promotions(self.id)
        chosen = choose_best(self.nodes(), promotions)
        if chosen is None:
            return None
        return BestKernel(self, chosen, promotions.get(chosen.id) or self.verdicts(chosen.id)[-1])

    def summary(self) -> RunSummary:
        """What the run came to."""
        record, best = self.record, self.best
        graph = SearchGraph()
        for node in self.nodes():
            graph.insert(node)
        verdicts = Counter(node.kind.value for node in graph.nodes())
        control, checkpoint = best_of_n(graph), self.store.checkpoint(self.id)
        measurement = best.verdict.measurement if best is not None else None
        return RunSummary(
            run=record.id,
            problem=record.problem.name,
            target=record.target,
            device=record.device,
            status=record.status,
            reason=record.reason,
            evaluations=len(graph),
            trials=self.store.count_trials(self.id),
            seconds=0.0 if checkpoint is None else checkpoint.ledger["seconds"],
            models=self._models(),
            verdicts=dict(verdicts),
            baselines=record.baselines,
            best=best.summary() if best is not None else None,
            control=ControlSummary(
                drafts=control.drafts,
                best_draft=math.exp(control.best_draft) if control.best_draft > -math.inf else None,
                estimate=math.exp(control.estimate) if control.estimate > -math.inf else None,
            ),
            environment=measurement.environment if measurement is not None else {},
        )

    def _models(self) -> ModelsSummary | None:
        money = self.store.recordings.money(self.id)
        if not money.requests:
            return None
        return ModelsSummary(
            requests=money.requests, input_tokens=money.input_tokens, output_tokens=money.output_tokens,
            dollars=money.dollars,
        )  # fmt: skip
