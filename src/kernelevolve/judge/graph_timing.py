"""Short kernels once more, replayed as CUDA graphs: what is left of them and of the fastest baseline without launches.

A kernel of a few microseconds waits for its launch, and several of them for each other. Who replays a step of a model
as a graph pays less of that, so a promotion also says what both sides take then. Replays get new contents at the same
addresses like calls, and their outputs are compared. The figure is read by the worker, no series confirms it, and it
decides nothing.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import torch

from kernelevolve.judge.baselines import BaselineUnavailable
from kernelevolve.judge.bench import Bench
from kernelevolve.judge.cases import CaseBook
from kernelevolve.judge.correctness import BoundCandidate, output_slots
from kernelevolve.judge.measurement import CANDIDATE
from kernelevolve.judge.oracle import Case
from kernelevolve.judge.rejection import Rejected
from kernelevolve.judge.settings import TimingPlan
from kernelevolve.judge.timing import BaselineLost, Contestant, TimingSession
from kernelevolve.judge.verdict import Clock, Samples, Stage
from kernelevolve.problems import Workload
from kernelevolve.workers.handle import WorkerFailure
from kernelevolve.workers.layout import Layout

SHORT_SECONDS = 30e-6
"""Device time of a program below which launches are a part of it that counts."""
METHOD = "CUDA events round the replay of a CUDA graph, L2 cache flushed"
_PLAN = TimingPlan(blocks=20, min_blocks=10, calls=3, seconds=2.0, warm_up=2)
_CHECK_RATE = 0.25
_LIKE = 2e-2
"""Distance of a baseline's replay from its own call, over the size of the values, that rounding may explain."""


@dataclass(frozen=True, slots=True)
class GraphTimes:
    """Samples of the candidate and of one baseline on all workloads, or why there are none."""

    samples: tuple[Samples, ...] = ()
    missing: str | None = None

    @property
    def notes(self) -> tuple[str, ...]:
        """A whole sentence on what could not be replayed."""
        return () if self.missing is None else (f"not timed as a CUDA graph: {self.missing}",)


class _CannotReplay(Exception):
    """The message says why."""


def time_graphs(
    bench: Bench,
    bound: Mapping[str, BoundCandidate],
    workloads: Sequence[Workload],
    book: CaseBook,
    taken: Sequence[Samples],
    rng: random.Random,
) -> GraphTimes:
    """Replay the candidate and the fastest baseline on these workloads, if one of them is short on any.

    ``taken`` are the times of calls. The baseline runs in its second process, which is ended if it cannot be replayed:
    what a broken capture leaves behind must not be timed later. Must not be called while the device is held.
    """
    if not any(s.clock is Clock.DEVICE and s.seconds < SHORT_SECONDS for s in taken):
        return GraphTimes()
    if bench.instance.training or any(bound[workload.name].effects.mutates for workload in workloads):
        return GraphTimes(missing="a replay would repeat what a call changes")
    name = bench.fastest_baseline()
    if name is None:
        return GraphTimes(missing="no baseline runs all search workloads")
    samples: list[Samples] = []
    for workload in workloads:
        try:
            baseline = replace(bench.twin(name, workload, book), name=name, graph=True)
            with bench.lock.timing():
                samples += _time(bench, bound[workload.name], baseline, workload, book, rng)
        except (BaselineUnavailable, BaselineLost) as reason:
            bench.end_twin(name)
            return GraphTimes(missing=f"{name} cannot be replayed: {_first_line(reason)}")
        except _CannotReplay as reason:
            return GraphTimes(missing=str(reason))
    return GraphTimes(tuple(samples))


def _time(
    bench: Bench,
    bound: BoundCandidate,
    baseline: Contestant,
    workload: Workload,
    book: CaseBook,
    rng: random.Random,
) -> Iterator[Samples]:
    cases = book.cases(workload)
    candidate = Contestant(
        CANDIDATE, bound.session, bound.instance, bound.binding, bound.run_seconds, trusted=False, graph=True
    )
    with baseline.blamed():
        baseline.session.capture_graph(baseline.instance, baseline.binding, baseline.run_seconds)
        if not _replays_its_call(baseline, cases[0]):
            raise BaselineLost("a replay computes something else than a call")
    session = TimingSession(
        plan=_PLAN,
        seconds=_PLAN.seconds,
        clocks=("device",),
        fresh=lambda: book.variation(workload),
        rng=rng,
        check=bound.checks(cases, cases, rng, Stage.PROMOTION, graph=True).__next__,
        check_rate=_CHECK_RATE,
    )
    try:
        with candidate.alone():
            bound.session.capture_graph(bound.instance, bound.binding, bound.run_seconds)
        session.run([candidate, baseline])
    except (WorkerFailure, Rejected) as reason:
        sentence = f"the kernel cannot be replayed on workload {workload.name}: {_first_line(reason)}"
        raise _CannotReplay(sentence) from None
    for contestant in (candidate, baseline):
        blocks = tuple(contestant.blocks["device"])
        yield Samples(program=contestant.name, workload=workload.name, clock=Clock.GRAPH, method=METHOD, blocks=blocks)


def _first_line(reason: Exception) -> str:
    return next(iter(str(reason).splitlines()), type(reason).__name__)


def _replays_its_call(baseline: Contestant, case: Case) -> bool:
    """Whether a replay gives what a call gives. Its weights may be those of an earlier promotion: no golden fits."""
    session, found = baseline.session, list[dict[str, torch.Tensor]]()
    for graph in (False, True):
        session.prepare(baseline.binding, case.inputs, baseline.run_seconds)
        call = session.call(baseline.instance, [baseline.binding], baseline.run_seconds, graph=graph)
        outputs, _ = session.pull(call, {0: output_slots(case, Layout())}, baseline.run_seconds)
        session.forget(call)
        found.append(outputs[0])
    called, replayed = found
    return all(_alike(called[path].double(), replayed[path].double()) for path in called)


def _alike(a: torch.Tensor, b: torch.Tensor) -> bool:
    size = float(a.nan_to_num().square().mean().sqrt()) if a.numel() else 0.0
    return torch.allclose(a, b, rtol=_LIKE, atol=_LIKE * size, equal_nan=True)
