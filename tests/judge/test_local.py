"""The judge as a whole on the CPU: verdicts on good candidates, baselines, several threads, promotion."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
import torch
from judging import SCALE, candidate, quick_judge

from kernelevolve.candidates import Candidate
from kernelevolve.judge.baselines import BaselineUnavailable
from kernelevolve.judge.device import DeviceLock
from kernelevolve.judge.local import LocalJudge
from kernelevolve.judge.settings import TimingPlan
from kernelevolve.judge.verdict import Clock, Effort, Measurement, Stage, Verdict, VerdictKind
from kernelevolve.problems import Role

GOOD = candidate("return self.right(x)")

CPP = '''
import ctypes
import torch
from kernelevolve.languages import cpp

KERNEL = cpp.build(r"""
#include <cstdint>
extern "C" void scale(const float* x, const float* w, float* y, int64_t rows, int64_t columns) {
    #pragma omp parallel for
    for (int64_t i = 0; i < rows; ++i)
        for (int64_t j = 0; j < columns; ++j) {
            float p = x[i * columns + j] * w[j];
            y[i * columns + j] = (p > 0 ? p : 0) + x[i * columns + j];
        }
}
""")

class ModelNew(torch.nn.Module):
    def __init__(self, features):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.empty(features))

    def forward(self, x):
        x = x.contiguous()
        y = torch.empty_like(x)
        KERNEL.scale(x, self.weight, y, x.shape[0], x.shape[1])
        return y
'''


@pytest.fixture(scope="module")
def judge(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalJudge]:
    promotion = TimingPlan(blocks=25, min_blocks=20, calls=1, seconds=1.0)
    judge = quick_judge(tmp_path_factory.mktemp("judge"), promotion=promotion)
    yield judge
    judge.close()


def correct(verdict: Verdict) -> Measurement:
    assert verdict.kind is VerdictKind.CORRECT, (verdict.stage, verdict.reason, verdict.detail)
    assert verdict.measurement is not None
    return verdict.measurement


def test_screen_of_a_good_candidate(judge: LocalJudge) -> None:
    verdict = judge.evaluate(GOOD)
    measurement = correct(verdict)
    assert verdict.stage is Stage.TIMING and verdict.candidate_id == GOOD.id and verdict.reason == ""
    assert {s.program for s in measurement.samples} == {"candidate", "eager"}
    assert len({len(s.blocks) for s in measurement.samples if s.clock is not Clock.JUDGE}) == 1
    assert [(s.baseline, s.clock) for s in measurement.speedups] == [("eager", Clock.WALL), ("eager", Clock.JUDGE)]
    assert verdict.errors and all(error.passed for error in verdict.errors)
    assert verdict.roofline_fraction is not None and 0 < verdict.roofline_fraction < 1
    assert int(measurement.environment["threads"]) >= 1 and measurement.environment["torch"] == torch.__version__
    assert "isolation.pid" in measurement.environment


def test_noise_is_measured_once_at_the_start(judge: LocalJudge) -> None:
    first, again = correct(judge.evaluate(GOOD)), correct(judge.evaluate(GOOD))
    assert set(first.noise_at_start) == {Clock.WALL} and first.noise_at_start == again.noise_at_start
    assert first.noise_floors == {} and first.noise_floor(Clock.WALL) == first.noise_at_start[Clock.WALL] >= 0
    assert first.environment["noise_at_start.wall"] == again.environment["noise_at_start.wall"]
    assert first.environment["noise_at_start.wall"].endswith("eager")


def test_a_judge_goes_on_without_a_twin(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def none(*_: object) -> None:
        raise BaselineUnavailable("no memory for a second one")

    judge = quick_judge(tmp_path)
    monkeypatch.setattr(judge._bench, "twin", none)
    try:
        measurement = correct(judge.evaluate(GOOD))
        assert measurement.noise_at_start == {} and measurement.noise_floor(Clock.WALL) == 0
        assert measurement.environment["noise_at_start"] == "unknown: no memory for a second one"
        monkeypatch.undo()
        judge._bench.noise = None
        assert judge._bench.noise_at_start().floors
        assert judge._bench._twins["eager"]._session is None, "a twin takes the memory of a baseline"
    finally:
        judge.close()


def test_tune_is_a_short_screen(judge: LocalJudge) -> None:
    verdict = judge.evaluate(GOOD, Effort.TUNE)
    measurement = correct(verdict)
    (mine,) = [s for s in measurement.samples if s.program == "candidate"]
    assert 3 <= sum(map(len, mine.blocks)) <= 15
    assert {s.program for s in measurement.samples} == {"candidate"}
    assert not verdict.wins


def test_promotion_uses_every_role_and_measures_noise(judge: LocalJudge) -> None:
    verdict = judge.evaluate(GOOD, Effort.PROMOTION)
    measurement = correct(verdict)
    assert verdict.stage is Stage.PROMOTION
    workloads = {w.name: w.role for w in judge._bench.instance.workloads}
    assert {e.workload for e in verdict.errors} == set(workloads)
    timed = {s.workload for s in measurement.samples}
    assert timed == {name for name, role in workloads.items() if role is not Role.STRESS}
    assert all(len(s.blocks) >= (5 if s.clock is Clock.JUDGE else 20) for s in measurement.samples)
    assert set(measurement.noise_floors) == {s.clock for s in measurement.samples}
    assert {s.program for s in measurement.samples} == {"candidate", "eager", "eager again"}


def test_fails_on_a_workload_that_only_a_promotion_sees(judge: LocalJudge) -> None:
    body = "return self.right(x) if x.is_contiguous() else torch.zeros_like(x)"
    correct(judge.evaluate(candidate(body)))
    verdict = judge.evaluate(candidate(body), Effort.PROMOTION)
    assert verdict.kind is VerdictKind.WRONG and "strided" in verdict.reason


def test_cpp_candidate_and_its_artifact(judge: LocalJudge) -> None:
    one = judge.evaluate(Candidate(source=CPP, language="cpp"))
    correct(one)
    same = judge.evaluate(Candidate(source=CPP + "# a comment\n", language="cpp"))
    other = judge.evaluate(Candidate(source=CPP.replace("(p > 0 ? p : 0)", "(p < 0 ? 0 : p) * 1.0f"), language="cpp"))
    assert one.artifact_key is not None
    assert one.artifact_key == same.artifact_key
    assert other.artifact_key is not None


def test_notes_are_passed_on(judge: LocalJudge) -> None:
    source = GOOD.source + "\nNOTES = ['all of it is torch']\n"
    assert "all of it is torch" in judge.evaluate(Candidate(source=source, language="cpp")).notes


def test_weights_can_be_repacked_from_a_skeleton(judge: LocalJudge) -> None:
    source = """
import torch
class ModelNew(torch.nn.Module):
    @classmethod
    def from_reference(cls, skeleton, features):
        self = cls()
        assert type(skeleton).forward is torch.nn.Module.forward
        self.table = skeleton.weight.detach().reshape(2, features // 2).clone()
        return self
    def forward(self, x):
        return torch.relu(x * self.table.reshape(-1)) + x
"""
    correct(judge.evaluate(Candidate(source=source, language="cpp")))


def test_several_threads(judge: LocalJudge) -> None:
    bodies = ["return self.right(x)", "return x * 2", "raise ValueError", "return self.right(x) + 0"] * 2
    with ThreadPoolExecutor(4) as pool:
        kinds = [v.kind.value for v in pool.map(lambda body: judge.evaluate(candidate(body)), bodies)]
    assert kinds == ["correct", "wrong", "runtime_error", "correct"] * 2


def test_baselines(judge: LocalJudge) -> None:
    seconds = judge.baselines()
    assert set(seconds) == {"eager"} and seconds["eager"] is not None and 0 < seconds["eager"] < 1


def test_a_dead_baseline_is_started_again(judge: LocalJudge) -> None:
    correct(judge.evaluate(GOOD))
    session = judge._bench._baselines["eager"]._session
    assert session is not None
    session.handle.kill()
    correct(judge.evaluate(GOOD))


def test_a_baseline_that_cannot_run_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch, "compile", torch.compile)  # The text below also runs in this process.
    broken = """
def broken(*args, **options):
    def call(*inputs):
        raise RuntimeError('no compiler here')
    return call
torch.compile = broken
"""
    judge = quick_judge(tmp_path, SCALE + broken, baselines=("eager", "compile"))
    try:
        verdict = judge.evaluate(GOOD)
        correct(verdict)
        assert any("compile" in note and "no compiler here" in note for note in verdict.notes)
        assert judge.baselines()["compile"] is None and judge.baselines()["eager"] is not None
        assert set(judge.unavailable_baselines()) == {"compile"}
    finally:
        judge.close()


LIBRARY = """
def LIBRARY(model, x):
    return torch.addcmul(x, x, model.weight).clamp_(min=0) {what}
"""


def test_a_library_that_the_problem_names_is_a_baseline(tmp_path: Path) -> None:
    right = "if False else torch.relu(x * model.weight) + x"
    judge = quick_judge(tmp_path, SCALE + LIBRARY.format(what=right), baselines=None)
    try:
        verdict = judge.evaluate(GOOD)
        assert {"eager", "compile", "library"} == set(verdict.speedups), verdict.notes
    finally:
        judge.close()


def test_a_library_whose_results_are_wrong_is_no_baseline(tmp_path: Path) -> None:
    judge = quick_judge(tmp_path, SCALE + LIBRARY.format(what=""), baselines=("eager", "library"))
    try:
        verdict = judge.evaluate(GOOD)
        assert set(verdict.speedups) == {"eager"}
        assert any("library" in note and "is wrong" in note for note in verdict.notes)
    finally:
        judge.close()


NESTED = """
import torch

class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.norm = torch.nn.BatchNorm1d(8)

    def forward(self, pair, index, flag):
        out = self.norm(pair["x"])[index]
        return {"rows": out, "extra": [out.sum(1), None, 3]}

def get_inputs():
    return [{"x": torch.randn(32, 8)}, torch.randint(0, 32, (16,)), True]

def get_init_inputs():
    return []
"""


def test_nested_values_buffers_and_integers(tmp_path: Path) -> None:
    source = """
import torch
class ModelNew(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.norm = torch.nn.BatchNorm1d(8)
    def forward(self, pair, index, flag):
        out = self.norm(pair["x"])[index] if flag else None
        return {"rows": out, "extra": [out.sum(1), None, 3]}
"""
    judge = quick_judge(tmp_path, NESTED, promotion=TimingPlan(blocks=2, min_blocks=2, calls=1, seconds=0.1))
    try:
        correct(judge.evaluate(Candidate(source=source, language="cpp"), Effort.PROMOTION))
        wrong = judge.evaluate(Candidate(source=source.replace("None, 3]", "None]"), language="cpp"))
        assert wrong.kind is VerdictKind.WRONG and "extra.2" in wrong.reason
    finally:
        judge.close()


RAGGED = """
import random
import torch

class Model(torch.nn.Module):
    def forward(self, x, n):
        return x * n

def get_inputs():
    n = int(torch.randint(2, 9, ()))
    return [torch.randn(n, 16), n]
"""


def test_shapes_that_change_with_the_seed(tmp_path: Path) -> None:
    judge = quick_judge(tmp_path, RAGGED)
    source = "import torch\nclass ModelNew(torch.nn.Module):\n    def forward(self, x, n):\n        return x * {}\n"
    try:
        correct(judge.evaluate(Candidate(source=source.format("n"), language="cpp")))
        fixed = Candidate(source=source.format("x.shape[0]"), language="cpp")
        correct(judge.evaluate(fixed))
    finally:
        judge.close()


def test_inputs_are_never_the_same_twice(judge: LocalJudge) -> None:
    book, (workload, *_) = judge._bench.book, judge._bench.workloads(Role.SEARCH)
    drawn = [book.variation(workload)[0] for _ in range(50)] + [case.inputs[0] for case in book.cases(workload)]
    assert len({x.numpy().tobytes() for x in drawn}) == len(drawn)
    weights = {case.weights["weight"].numpy().tobytes() for case in book.cases(workload)}
    assert len(weights) == 1


def test_a_promotion_draws_its_own_secrets(judge: LocalJudge) -> None:
    (workload, *_) = judge._bench.workloads(Role.SEARCH)
    seeds = {case.seed for book in (judge._bench.book, judge._bench.fresh_book()) for case in book.cases(workload)}
    assert len(seeds) == 2 * judge.settings.sets


def test_nothing_is_left_behind(tmp_path: Path) -> None:
    judge = quick_judge(tmp_path)
    judge.evaluate(GOOD, Effort.TUNE)
    judge.close()
    assert list((tmp_path / "scratch").iterdir()) == []


@pytest.mark.parametrize("processes", [1, 10], ids=["one_process", "several_processes"])
def test_whoever_times_is_alone(processes: int) -> None:
    log: list[str] = []
    # Locks of one process know of each other through the file alone, as those of several do.
    locks = [DeviceLock("test of the lock", apart=True) for _ in range(processes)] * (10 // processes)

    def work() -> None:
        with locks.pop().working():
            log.append("work")
            time.sleep(0.02)
            log.append("rest")

    def measure() -> None:
        with locks.pop().timing():
            log.append("start")
            time.sleep(0.02)
            log.append("stop")

    threads = [threading.Thread(target=job) for job in (work, measure, work, measure, work) * 2]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    working = 0
    for before, event in zip(["stop", *log], log, strict=False):
        working += (event == "work") - (event == "rest")
        if event == "start":
            assert working == 0
        if before == "start":
            assert event == "stop"
