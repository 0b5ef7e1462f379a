"""Replays of CUDA graphs: when they are taken and what a failure says, with scripted programs; and for real on a GPU."""

from __future__ import annotations

import random
from contextlib import nullcontext
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from judging import HEAD

from kernelevolve.candidates import Candidate
from kernelevolve.judge.correctness import BoundCandidate
from kernelevolve.judge.graph_timing import SHORT_SECONDS, GraphTimes, time_graphs
from kernelevolve.judge.integrity import ReferenceEffects
from kernelevolve.judge.local import LocalJudge
from kernelevolve.judge.rejection import Rejected
from kernelevolve.judge.session import Call
from kernelevolve.judge.timing import Contestant
from kernelevolve.judge.verdict import Clock, Effort, Samples, Stage, Verdict, VerdictKind
from kernelevolve.problems import Workload
from kernelevolve.workers.handle import ProgramRaised
from kernelevolve.workers.messages import Failed


class Program:
    """Answers like ProgramSession; replays take half of the time of a call."""

    def __init__(self, seconds: float, *, refuses: bool = False, forgets: bool = False) -> None:
        self.seconds, self.refuses, self.forgets = seconds, refuses, forgets
        self.captured = False
        self.handle: Any = SimpleNamespace(pause=lambda: None, resume=lambda: None)

    def capture_graph(self, instance: str, binding: Any, timeout: float) -> None:
        if self.refuses:
            raise ProgramRaised(Failed(category="exception", type="RuntimeError", message="capture failed\nmore"))
        self.captured = True

    def prepare(self, binding: Any, inputs: Any, timeout: float) -> None:
        self.inputs = inputs

    def call(self, instance: str, bindings: Any, timeout: float, clock: str = "wall", graph: bool = False) -> Call:
        assert self.captured or not graph
        self.replayed = graph
        return Call((("out", "b"),), 1e-4, self.seconds / 2 if graph else self.seconds, 2e-4)

    def pull(self, call: Call, places: Any, timeout: float) -> Any:
        value = 0.0 if self.forgets and self.replayed else 1.0
        return {0: {"0": torch.full((4,), value)}}, 0.0

    def forget(self, call: Call) -> None:
        pass


class Bound:
    """Answers like BoundCandidate; ``wrong`` says in which comparison of a replay it is found out."""

    def __init__(self, session: Program, effects: ReferenceEffects, wrong: int | None = None) -> None:
        self.session, self.effects, self.wrong = session, effects, wrong
        self.instance, self.binding, self.run_seconds, self.compared = "i", None, 1.0, 0

    checks: Any = BoundCandidate.checks

    def call(self, case: Any, *, graph: bool) -> None:
        assert graph and self.session.captured

    def check_call(self, call: None, case: Any, stage: Stage) -> None:
        self.compared += 1
        if self.compared == self.wrong:
            raise Rejected(VerdictKind.WRONG, stage, "output 0 is wrong")


WORKLOADS = [Workload(name="a"), Workload(name="b")]


def taken(seconds: float, clock: Clock = Clock.DEVICE) -> list[Samples]:
    blocks = ((seconds,),) * 3
    return [Samples(program="candidate", workload="a", clock=clock, method="m", blocks=blocks)]


def replay(
    samples: list[Samples],
    kernel: Program | None = None,
    baseline: Program | None = None,
    *,
    training: bool = False,
    mutates: frozenset[str] = frozenset(),
    wrong: int | None = None,
) -> tuple[GraphTimes, list[str]]:
    """What comes of it, and which second processes of baselines were ended."""
    kernel, theirs, ended = kernel or Program(8e-6), baseline or Program(2e-5), list[str]()
    session: Any = theirs
    binding: Any = None
    bench: Any = SimpleNamespace(
        instance=SimpleNamespace(training=training),
        fastest_baseline=lambda: "eager",
        twin=lambda name, workload, book: Contestant("eager again", session, "i", binding, 1.0),
        end_twin=ended.append,
        lock=SimpleNamespace(timing=nullcontext),
    )
    case = SimpleNamespace(inputs=(1,), expected=[SimpleNamespace(path="0", shape=(4,), dtype=torch.float32)])
    book: Any = SimpleNamespace(cases=lambda workload: [case, case], variation=lambda workload: (2,))
    bound: Any = {w.name: Bound(kernel, ReferenceEffects(mutates=mutates), wrong) for w in WORKLOADS}
    return time_graphs(bench, bound, WORKLOADS, book, samples, random.Random(0)), ended


def test_short_programs_are_replayed_on_all_workloads_beside_the_fastest_baseline() -> None:
    found, ended = replay(taken(0.9 * SHORT_SECONDS))
    assert found.missing is None and not ended
    assert {(s.program, s.workload) for s in found.samples} == {(p, w) for p in ("candidate", "eager") for w in "ab"}
    assert {s.clock for s in found.samples} == {Clock.GRAPH} and len({len(s.blocks) for s in found.samples}) == 1
    assert {s.program: s.seconds for s in found.samples} == {"candidate": 4e-6, "eager": 1e-5}


@pytest.mark.parametrize("samples", [taken(1.1 * SHORT_SECONDS), taken(1e-6, Clock.WALL)], ids=["long", "no GPU"])
def test_others_are_not(samples: list[Samples]) -> None:
    assert replay(samples) == (GraphTimes(), [])


def test_what_changes_its_inputs_or_its_state_is_not_replayed() -> None:
    for given in ({"training": True}, {"mutates": frozenset({"0"})}):
        found, _ = replay(taken(1e-6), **given)  # type: ignore[arg-type]
        assert found == GraphTimes(missing="a replay would repeat what a call changes")


@pytest.mark.parametrize("wrong", [1, 2])
def test_a_kernel_whose_replay_is_wrong_keeps_its_verdict_without_these_times(wrong: int) -> None:
    found, ended = replay(taken(1e-6), wrong=wrong)
    assert not found.samples and not ended
    assert found.missing == "the kernel cannot be replayed on workload a: output 0 is wrong"


def test_a_kernel_that_cannot_be_captured_is_named_with_the_reason() -> None:
    found, ended = replay(taken(1e-6), Program(8e-6, refuses=True))
    assert not found.samples and not ended
    assert found.missing is not None and "on workload a: RuntimeError: capture failed" in found.missing


@pytest.mark.parametrize(
    ("baseline", "words"),
    [(Program(2e-5, refuses=True), "capture failed"), (Program(2e-5, forgets=True), "something else than a call")],
    ids=["capture", "replay"],
)
def test_a_baseline_that_cannot_be_replayed_is_ended(baseline: Program, words: str) -> None:
    found, ended = replay(taken(1e-6), baseline=baseline)
    assert not found.samples and ended == ["eager"]
    assert found.missing is not None and found.missing.startswith("eager cannot be replayed: ")
    assert words in found.missing


# -- for real ----------------------------------------------------------------------------------------------------------


def promoted(judge: LocalJudge, before: str = "") -> Verdict:
    verdict = judge.evaluate(
        Candidate(source=f"{HEAD}        {before}\n        return self.right(x)\n", language="triton"),
        Effort.PROMOTION,
    )
    assert verdict.correct and verdict.measurement is not None, (verdict.reason, verdict.detail)
    return verdict


@pytest.mark.nvidia
@pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no NVIDIA GPU")
def test_on_a_gpu_both_sides_are_replayed(gpu_judge: LocalJudge) -> None:
    verdict = promoted(gpu_judge)
    measurement = verdict.measurement
    assert measurement is not None
    (speedup,) = (s for s in measurement.speedups if s.clock is Clock.GRAPH)
    assert speedup.baseline == "eager" and 0.5 < speedup.value < 2  # It is the same program.
    for program in ("candidate", "eager"):
        # Three launches in one piece take no longer than one after the other; the clocks differ by some microseconds.
        assert measurement.seconds(program, Clock.GRAPH) < measurement.seconds(program, Clock.DEVICE) + 3e-6


@pytest.mark.nvidia
@pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no NVIDIA GPU")
def test_on_a_gpu_what_waits_for_the_device_cannot_be_captured(gpu_judge: LocalJudge) -> None:
    verdict = promoted(gpu_judge, "torch.cuda.synchronize()")
    assert verdict.measurement is not None
    assert not [s for s in verdict.measurement.samples if s.clock is Clock.GRAPH]
    assert any(note.startswith("not timed as a CUDA graph: the kernel cannot be replayed") for note in verdict.notes)
    assert promoted(gpu_judge).correct
