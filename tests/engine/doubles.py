"""A judge, operators and a target for tests of the engine: everything they say follows from the candidate's text.

A program is a tuple of five digits. Its time falls with each digit and depends on its configuration; some digits make
it fail. Nothing here measures anything: the engine is under test, not the judge.
"""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeAlias, TypeVar

from kernelevolve.candidates import Candidate
from kernelevolve.candidates.structure import read_plan, structure_key
from kernelevolve.judge.verdict import (
    Clock,
    Effort,
    Measurement,
    Samples,
    Speedup,
    Stage,
    Verdict,
    VerdictKind,
)
from kernelevolve.languages import Availability
from kernelevolve.operators import Operator, ProposalContext
from kernelevolve.problems import Problem
from kernelevolve.search.engine import Engine
from kernelevolve.search.events import Event, Listener
from kernelevolve.search.ledger import Budget
from kernelevolve.search.policies import POLICIES
from kernelevolve.search.settings import SearchSettings
from kernelevolve.store import RunRecord, Store
from kernelevolve.targets import Ceilings, Target

E = TypeVar("E")
Digits: TypeAlias = tuple[int, ...]

PROBLEM = Problem(name="scripted", source="class Model: ...")
BASELINE_SECONDS = 1e-3
LENGTH, BASE = 5, 4

_SOURCE = """
from kernelevolve.candidates.space import PowerOfTwo, TunableSpace

TUNABLES = TunableSpace({{"BLOCK": PowerOfTwo(16, 1024, 64), "WARPS": PowerOfTwo(1, 8, 4)}})
CONFIG = TUNABLES.default
PLAN = {{"digits": {digits}}}


class ModelNew:
    pass
"""


def program(digits: Digits) -> Candidate:
    """The candidate of these digits at its default configuration."""
    return Candidate(source=_SOURCE.format(digits=list(digits)), language="cpp", config={"BLOCK": 64, "WARPS": 4})


def digits_of(candidate: Candidate) -> Digits:
    """What a candidate was made from."""
    return tuple(read_plan(candidate.source)["digits"])


def speedup_of(candidate: Candidate) -> float:
    """The true speed-up over the baseline: 0.5 for zeros, more for larger digits, most at BLOCK 256 and WARPS 2."""
    block, warps = int(candidate.config["BLOCK"]), int(candidate.config["WARPS"])
    detuned = 0.08 * abs(math.log2(block / 256)) + 0.05 * abs(math.log2(warps / 2))
    structure = math.prod(1 + 0.12 * digit for digit in digits_of(candidate))
    return 0.5 * structure / (1 + detuned)


def kind_of(candidate: Candidate) -> VerdictKind:
    """Wrong if the first two digits are both 3, a build error if the last two are."""
    digits = digits_of(candidate)
    if digits[:2] == (3, 3):
        return VerdictKind.WRONG
    return VerdictKind.BUILD_ERROR if digits[-2:] == (3, 3) else VerdictKind.CORRECT


@dataclass
class ScriptedJudge:
    """Implements the Judge protocol from the functions above; every part of its answer can be replaced by a test."""

    kind: Callable[[Candidate, Effort], VerdictKind] = field(default=lambda candidate, effort: kind_of(candidate))
    speedup: Callable[[Candidate, Effort], float] = field(default=lambda candidate, effort: speedup_of(candidate))
    artifact: Callable[[Candidate], str] = field(default=lambda candidate: candidate.id)
    delay: float = 0.0
    on_call: Callable[[Candidate, Effort], None] = field(default=lambda candidate, effort: None)
    calls: list[tuple[Candidate, Effort]] = field(default_factory=list)
    most_at_once: int = 0
    _now: int = 0
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def evaluate(self, candidate: Candidate, effort: Effort = Effort.SCREEN) -> Verdict:
        with self._lock:
            self.calls.append((candidate, effort))
            self._now += 1
            self.most_at_once = max(self.most_at_once, self._now)
        try:
            self.on_call(candidate, effort)
            time.sleep(self.delay)
            return verdict_of(candidate, effort, self.kind(candidate, effort), self.speedup(candidate, effort),
                              self.artifact(candidate))  # fmt: skip
        finally:
            with self._lock:
                self._now -= 1

    def build(self, candidate: Candidate) -> Verdict | None:
        kind = self.kind(candidate, Effort.TUNE)
        return None if kind is VerdictKind.CORRECT else verdict_of(candidate, Effort.TUNE, kind, 0.0)

    def baselines(self) -> dict[str, float | None]:
        return {"eager": BASELINE_SECONDS, "compile": None}

    def close(self) -> None:
        pass

    def judged(self, effort: Effort) -> list[Candidate]:
        """The candidates that were judged at an effort, in order."""
        return [candidate for candidate, given in self.calls if given is effort]


def verdict_of(
    candidate: Candidate, effort: Effort, kind: VerdictKind, speedup: float, artifact: str | None = None
) -> Verdict:
    """A verdict with one baseline, timed by the wall."""
    if kind is not VerdictKind.CORRECT:
        return Verdict(candidate_id=candidate.id, kind=kind, stage=Stage.CORRECTNESS, effort=effort, reason="scripted")
    seconds = {"candidate": BASELINE_SECONDS / speedup, "eager": BASELINE_SECONDS}
    samples = tuple(
        Samples(program=name, workload="w", clock=Clock.WALL, method="scripted", blocks=((value,),))
        for name, value in seconds.items()
    )
    found = Speedup(baseline="eager", clock=Clock.WALL, value=speedup, low=speedup * 0.98, high=speedup * 1.02)
    by_judge = found.model_copy(update={"clock": Clock.JUDGE})
    floors = {Clock.WALL: 0.005} if effort is Effort.PROMOTION else {}
    return Verdict(
        candidate_id=candidate.id,
        kind=kind,
        stage=Stage.PROMOTION if effort is Effort.PROMOTION else Stage.TIMING,
        effort=effort,
        measurement=Measurement(samples=samples, speedups=(found, by_judge), noise_floors=floors),
        artifact_key=artifact,
        seconds_running=0.25,
    )


class Draft:
    """Small digits at random."""

    name, arities = "draft", (0,)

    def propose(self, context: ProposalContext) -> Candidate | None:
        return _first_new(context, (tuple(context.rng.randrange(2) for _ in range(LENGTH)) for _ in range(200)))


class Change:
    """One digit moved by one."""

    name, arities = "change", (1,)

    def propose(self, context: ProposalContext) -> Candidate | None:
        parent = digits_of(context.parents[0].candidate)
        moved = [
            (*parent[:i], digit, *parent[i + 1 :])
            for i in range(LENGTH)
            for digit in (parent[i] - 1, parent[i] + 1)
            if 0 <= digit < BASE
        ]
        context.rng.shuffle(moved)
        return _first_new(context, moved)


class Combine:
    """Each digit from one of two parents."""

    name, arities = "combine", (2,)

    def propose(self, context: ProposalContext) -> Candidate | None:
        pairs = list(zip(*(digits_of(parent.candidate) for parent in context.parents), strict=True))
        return _first_new(context, (tuple(map(context.rng.choice, pairs)) for _ in range(20)))


def _first_new(context: ProposalContext, wanted: Iterable[Digits]) -> Candidate | None:
    for digits in wanted:
        candidate = program(digits)
        if structure_key(candidate.source) not in context.tried:
            return candidate
    return None


class ScriptedTarget:
    """A device that nothing runs on."""

    name, device_type, exclusive_compile = "cpu", "cpu", True

    def availability(self) -> Availability:
        return Availability(ok=True)

    def device_name(self) -> str:
        return "scripted"

    def facts(self) -> dict[str, str | int | float]:
        return {"cores": 2}

    def conditions(self) -> dict[str, str]:
        return {}

    def ceilings(self) -> Ceilings:
        return Ceilings(
            device="scripted", read_bandwidth=1e9, copy_bandwidth=1e9, flops={}, launch_seconds=1e-6, cache_bytes=1
        )


@dataclass
class Recorder:
    """A listener that keeps what it hears."""

    events: list[Event] = field(default_factory=list)

    def on_event(self, event: Event) -> None:
        self.events.append(event)

    def of(self, kind: type[E]) -> list[E]:
        """The events of one type."""
        return [event for event in self.events if isinstance(event, kind)]


def settings(evaluations: int = 30, seconds: float = 3600, policy: str = "greedy", **other: object) -> SearchSettings:
    """Settings of a test's search; its numeric searches are short."""
    given = {"quick_trials": 5, "full_trials": 10, **other}
    return SearchSettings.model_validate(
        {
            "budget": Budget(evaluations=evaluations, seconds=seconds),
            "policy": policy,
            "operators": ("draft", "change", "combine"),
            **given,
        }
    )


def new_run(store: Store, chosen: SearchSettings) -> RunRecord:
    """A run of the scripted problem."""
    return store.create_run(PROBLEM, "cpu", device="scripted", settings=chosen.model_dump(mode="json"))


def engine(
    store: Store,
    record: RunRecord,
    chosen: SearchSettings,
    judge: ScriptedJudge,
    listeners: Sequence[Listener] = (),
    operators: Sequence[Operator] = (Draft(), Change(), Combine()),
) -> Engine:
    """An engine on a run, new or continued."""
    target: Target = ScriptedTarget()
    return Engine(store, record, chosen, POLICIES.get(chosen.policy)(), operators, target, judge, listeners)


def search(
    workspace: Path, chosen: SearchSettings, judge: ScriptedJudge | None = None, listeners: Sequence[Listener] = ()
) -> tuple[Store, RunRecord, ScriptedJudge]:
    """A whole run."""
    store, judge = Store(workspace), judge or ScriptedJudge()
    record = new_run(store, chosen)
    engine(store, record, chosen, judge, listeners).run()
    return store, record, judge
