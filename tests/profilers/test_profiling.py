"""Profilers on real candidates, and candidates that do not want to be profiled."""

from __future__ import annotations

import errno
import json
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

from judge.judging import HEAD, SCALE, candidate, quick_judge
from kernelevolve import cli, session
from kernelevolve.candidates import Candidate
from kernelevolve.errors import InvalidRequest
from kernelevolve.judge.local import LocalJudge
from kernelevolve.judge.verdict import Verdict, VerdictKind
from kernelevolve.profilers import PROFILERS, Bottleneck, Diagnosis, Metric, callgrind, operations
from kernelevolve.workers import messages
from kernelevolve.workers.isolation import Capability
from profilers import probes

CPP = '''
import torch
from kernelevolve.languages import cpp

KERNEL = cpp.build(r"""
#include <cmath>
#include <cstdint>
extern "C" void scale(const float* x, const float* w, float* y, int64_t rows, int64_t columns) {
  #pragma omp parallel for
  for (int64_t i = 0; i < rows; ++i)
    for (int64_t j = 0; j < columns; ++j) {
      float p = x[i * columns + j] * w[j];
      y[i * columns + j] = (p > 0 ? std::pow(p, 1.0f) : 0) + x[i * columns + j];
    }
}
""")

class ModelNew(torch.nn.Module):
    def __init__(self, features):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.empty(features))

    def forward(self, x):
        y = torch.empty_like(x)
        KERNEL.scale(x, self.weight, y, x.shape[0], x.shape[1])
        return y
'''
CRASHES = "if torch.autograd.profiler._is_profiler_enabled: os.kill(os.getpid(), 11)\nreturn self.right(x)"
LIES = HEAD.replace(
    "class ModelNew",
    "import kernelevolve.profilers.inside.tracing as tracing\n"
    "tracing.trace = lambda site, times: {'times': times, 'seconds': 'as few as you like'}\n\nclass ModelNew",
)
DISTURBS = HEAD.replace(
    "class ModelNew",
    "import kernelevolve.profilers.inside.tracing as tracing\ntracing.trace = lambda site, times: {'seconds': 'x' * (2 << 20)}"
    "\n\nclass ModelNew",
)


@pytest.fixture(scope="module")
def judge(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalJudge]:
    judge = quick_judge(tmp_path_factory.mktemp("profiling"))
    yield judge
    judge.close()


def profiled(judge: LocalJudge, program: Candidate, *names: str) -> tuple[Verdict, Diagnosis]:
    verdict = judge.evaluate(program)
    return verdict, judge.profile(program, verdict, profilers=names or None)


def test_a_native_candidate_is_seen_by_every_profiler_of_the_cpu(judge: LocalJudge) -> None:
    verdict, found = profiled(judge, Candidate(source=CPP, language="cpp"))
    assert verdict.correct, verdict.reason
    assert found.candidate_id == verdict.candidate_id
    assert found.distance.fraction is not None
    installed = {"valgrind": "callgrind", "perf": "perf", "g++": "vectorisation"}
    for tool, name in installed.items():
        if shutil.which(tool) is None:
            assert name in found.missing
        elif name not in found.ran:
            assert name == "perf", found.missing  # It may not be allowed to count here.
    shares = {e.subject: e for e in found.about(Metric.OPERATION_SHARE)}
    assert shares["scale"].detail == "native function, 1 a call"
    if "callgrind" in found.ran:
        (count,) = found.about(Metric.INSTRUCTIONS)
        assert count.value > 64 * 256
        own = [e for e in found.about(Metric.INSTRUCTION_SHARE) if e.place is not None]
        assert any("std::pow" in e.place.text for e in own if e.place is not None)
    if "vectorisation" in found.ran:
        loops = [e for m in (Metric.LOOP_VECTORISED, Metric.LOOP_NOT_VECTORISED) for e in found.about(m)]
        assert any(e.place is not None and "j < columns" in e.place.text for e in loops)
    assert not (set(found.ran) | set(found.missing)) & {"ncu", "compiler-resources"}  # They are of another device.


def test_counted_instructions_are_the_same_again(judge: LocalJudge) -> None:
    if shutil.which("valgrind") is None:
        pytest.skip("there is no valgrind")
    program = Candidate(source=CPP.replace("std::pow(p, 1.0f)", "p"), language="cpp")
    verdict = judge.evaluate(program)
    counts = {
        judge.profile(program, verdict, profilers=("callgrind",)).about(Metric.INSTRUCTIONS)[0].value for _ in range(2)
    }
    # A branch on random inputs moves a few; nothing else does.
    assert max(counts) < 1.01 * min(counts)


def test_a_plain_torch_candidate_has_its_operations_counted(judge: LocalJudge) -> None:
    program = Candidate(source=candidate("return self.right(x)").source, language="pytorch")
    verdict, found = profiled(judge, program)
    assert verdict.correct, verdict.reason
    assert "operations" in found.ran
    assert not (set(found.ran) | set(found.missing)) & {"callgrind", "vectorisation"}
    assert [e.value for e in found.about(Metric.OPERATIONS)] == [3.0]
    assert {e.subject for e in found.about(Metric.OPERATION_SHARE)} <= {"aten::mul", "aten::relu", "aten::add"}
    assert found.bottleneck is not Bottleneck.COMPUTE


def test_a_candidate_that_crashes_under_a_profiler_ends_that_profiler_only(judge: LocalJudge) -> None:
    verdict, found = profiled(judge, candidate(CRASHES), "operations", "vectorisation")
    assert verdict.correct, verdict.reason
    assert "SIGSEGV" in found.missing["operations"]
    assert "nothing of its loops" in found.missing["vectorisation"]
    assert judge.evaluate(candidate("return self.right(x)")).correct


def test_a_candidate_that_hangs_under_a_profiler_is_ended(judge: LocalJudge, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(operations, "_OVERHEAD", 0.5)
    monkeypatch.setattr(operations, "_MOST_CALLS", 1)
    hangs = "while torch.autograd.profiler._is_profiler_enabled: time.sleep(0.1)\nreturn self.right(x)"
    verdict, found = profiled(judge, candidate(hangs), "operations")
    assert verdict.correct, verdict.reason
    assert "did not end within" in found.missing["operations"]


@pytest.mark.parametrize("head", [LIES, DISTURBS], ids=["another shape", "too long"])
def test_a_report_that_the_candidate_forged_is_no_report(judge: LocalJudge, head: str) -> None:
    verdict, found = profiled(judge, candidate("return self.right(x)", head), "operations")
    assert verdict.correct, verdict.reason
    assert found.ran == ()
    assert found.missing["operations"]


def test_a_wrong_candidate_is_profiled_without_a_time(judge: LocalJudge) -> None:
    verdict, found = profiled(judge, candidate("return self.right(x) + 1"), "operations")
    assert verdict.kind is VerdictKind.WRONG
    assert found.ran == ("operations",)
    assert found.distance.measured_seconds is None
    assert found.distance.floor_seconds is not None


def test_a_candidate_that_does_not_run_is_not_profiled(judge: LocalJudge) -> None:
    broken = candidate("raise ValueError('no')")
    verdict = judge.evaluate(broken)
    with pytest.raises(ValueError, match="runtime_error"):
        judge.profile(broken, verdict)


def test_a_workload_that_does_not_exist_is_refused_with_those_that_do(judge: LocalJudge) -> None:
    good = candidate("return self.right(x)")
    with pytest.raises(InvalidRequest, match="use one of: as-written"):
        judge.profile(good, judge.evaluate(good), workload="nothing")


def test_a_tool_that_is_not_there_is_named_with_what_mends_it(
    judge: LocalJudge, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(callgrind.shutil, "which", lambda name: None)
    _, found = profiled(judge, Candidate(source=CPP, language="cpp"), "callgrind")
    assert found.missing == {"callgrind": "there is no valgrind; apt-get install valgrind"}


def test_every_profiler_is_registered_under_its_own_name() -> None:
    assert {PROFILERS.get(name).name for name in PROFILERS} == set(PROFILERS.names())
    for name in PROFILERS:
        state = PROFILERS.get(name).availability()
        assert state.ok or (state.missing and state.fix)


def test_the_command_prints_one_document(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "problem.py").write_text(SCALE)
    (tmp_path / "broken.py").write_text(candidate("return x.nothing").source)
    words = ["profile", str(tmp_path / "problem.py"), str(tmp_path / "broken.py"), "--target", "cpu", "--json"]
    assert cli.run([*words, "--out", str(tmp_path / "runs")]) == 1
    said = capsys.readouterr()
    document = json.loads(said.out)
    assert document["verdict"] == "runtime_error"
    diagnosis = Diagnosis.model_validate(document["diagnosis"])
    assert diagnosis.missing["operations"] == "a candidate that is runtime_error is not profiled"
    assert "runtime error" in said.err


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        (["problem.py", "nowhere.py"], "nowhere.py: the candidate cannot be read"),
        (["nowhere.py", "right.py"], "nowhere.py"),
        (["problem.py", "right.py", "--profiler", "crystal-ball"], "there is no profiler named 'crystal-ball'"),
    ],
)
def test_bad_input_gets_one_sentence(
    words: list[str],
    complaint: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("problem.py").write_text(SCALE)
    Path("right.py").write_text(candidate("return self.right(x)").source)
    assert cli.run(["profile", *words, "--target", "cpu"]) == 2
    said = capsys.readouterr()
    assert complaint in said.err
    assert said.err.count("\n") == 1


def test_a_capability_that_a_tool_needs_opens_no_other_door(judge: LocalJudge) -> None:
    bench = judge._bench
    session, place = bench.workers.open_candidate(frozenset({Capability.SYS_ADMIN}))
    try:
        reply = session.handle.ask(messages.Inspect(probes.confinement), 10.0).reply
    finally:
        session.close()
        bench.workers.clean(place)
    assert isinstance(reply, messages.Inspected)
    assert int(reply.report["effective"], 16) in (0, 1 << Capability.SYS_ADMIN)
    assert session.handle.isolation["capabilities"] == "all dropped but SYS_ADMIN"
    if session.handle.isolation["seccomp"] == "on":
        assert set(reply.report["answers"].values()) == {errno.EPERM}
    if session.handle.isolation["pid"] == "own":
        assert reply.report["writes"]["thread"] == 0
    if session.handle.isolation["files"] == "read-only":
        assert reply.report["writes"]["kernel"] != 0
    judged, place = bench.workers.open_candidate()
    judged.close()
    bench.workers.clean(place)
    assert judged.handle.isolation["capabilities"] == "none"


@pytest.mark.nvidia
@pytest.mark.skipif(not torch.cuda.is_available(), reason="no NVIDIA GPU")
def test_a_kernel_of_triton_is_seen_by_the_profilers_of_the_gpu(tmp_path: Path) -> None:
    problem = tmp_path / "problem.py"
    problem.write_text(SCALE.replace("64, 256", "8192, 4096").replace("[256]", "[4096]"))
    kernel = tmp_path / "kernel.py"
    kernel.write_text(TRITON)
    verdict, found = session.profile(problem, kernel, target="nvidia", out=tmp_path / "runs")
    assert verdict.correct, verdict.reason
    assert {"operations", "compiler-resources"} <= set(found.ran), found.missing
    assert any(e.subject == "scale" for e in found.about(Metric.KERNEL_SHARE))
    assert any(e.subject == "scale" and e.value > 0 for e in found.about(Metric.REGISTERS))
    if "ncu" not in found.ran:
        pytest.skip(f"ncu: {found.missing['ncu']}")
    (busy,) = (e for e in found.about(Metric.MEMORY_THROUGHPUT) if e.subject == "scale")
    assert busy.value > 0.3
    assert found.bottleneck is Bottleneck.MEMORY


TRITON = """
import torch
import triton
import triton.language as tl


@triton.jit
def scale(x, w, y, columns, BLOCK: tl.constexpr):
    row, at = tl.program_id(0), tl.arange(0, BLOCK)
    value = tl.load(x + row * columns + at)
    product = value * tl.load(w + at)
    tl.store(y + row * columns + at, tl.maximum(product, 0.0) + value)


class ModelNew(torch.nn.Module):
    def __init__(self, features):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.empty(features))

    def forward(self, x):
        y = torch.empty_like(x)
        scale[(x.shape[0],)](x, self.weight, y, x.shape[1], BLOCK=x.shape[1])
        return y
"""
