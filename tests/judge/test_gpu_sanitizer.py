"""compute-sanitizer at promotion: with a stand-in that starts its command and writes a log, and for real on a GPU."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import torch
from judging import candidate, quick_judge

from kernelevolve.candidates import Candidate
from kernelevolve.judge import gpu_sanitizer
from kernelevolve.judge.gpu_sanitizer import Sanitized, sanitize
from kernelevolve.judge.local import LocalJudge
from kernelevolve.judge.memory_check import examine
from kernelevolve.judge.rejection import Rejected
from kernelevolve.judge.selftest import corpus
from kernelevolve.judge.static import check_text
from kernelevolve.judge.verdict import Stage, VerdictKind
from kernelevolve.languages.toolchain import compute_sanitizer, cuda_toolkit
from kernelevolve.languages.toolchain.compute_sanitizer import Tool, command, program
from kernelevolve.workers import landlock

needs_landlock = pytest.mark.skipif(landlock.abi() < landlock.LEAST_ABI, reason="this kernel has no Landlock")

# -- how it is found and started ---------------------------------------------------------------------------------------


def test_it_is_found_on_path_or_in_a_toolkit(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(cuda_toolkit, "roots", lambda: (tmp_path / "empty", tmp_path / "cuda"))
    assert program() is None
    tool = tmp_path / "cuda" / "compute-sanitizer" / "compute-sanitizer"
    tool.parent.mkdir(parents=True)
    tool.touch()
    assert program() == tool
    (tmp_path / "compute-sanitizer").touch(mode=0o755)
    assert program() == tmp_path / "compute-sanitizer"


def test_the_command_keeps_findings_apart_from_what_the_target_prints() -> None:
    words = command(Path("/cuda/compute-sanitizer"), Tool.MEMCHECK, Path("/place/memcheck.log"), ["python", "-c", "x"])
    assert words[:3] == ["/cuda/compute-sanitizer", "--tool", "memcheck"] and words[-3:] == ["python", "-c", "x"]
    options = dict(zip(words[1:-3:2], words[2:-3:2], strict=True))
    assert options["--log-file"] == "/place/memcheck.log" and options["--target-processes"] == "all"
    assert options["--report-api-errors"] == "no"
    races = command(Path("compute-sanitizer"), Tool.RACECHECK, Path("log"), ["python"])
    assert "--report-api-errors" not in races and "--padding" not in races
    assert [tool.value for tool in Tool] == ["memcheck", "racecheck", "synccheck"]


# -- a stand-in --------------------------------------------------------------------------------------------------------

STAND_IN = """#!/bin/sh
here=$(dirname "$0")
while [ "${1#--}" != "$1" ]; do
  case "$1" in --tool) tool=$2 ;; --log-file) log=$2 ;; esac
  shift 2
done
exec 9>>"$log"
echo "========= COMPUTE-SANITIZER" >&9
. "$here/before.sh"
"$@"
code=$?
cat "$here/$tool.txt" >&9
exit $code
"""
CLEAN = "========= ERROR SUMMARY: 0 errors\n"
CLEAN_RACES = "========= RACECHECK SUMMARY: 0 hazards displayed (0 errors, 0 warnings)\n"
WRITE = """========= Invalid __global__ write of size 4 bytes
=========     at scale+0x70
=========     by thread (0,0,0) in block (0,0,0)
=========     Access to 0x7f8a01200000 is out of bounds
=========     and is 1 bytes after the nearest allocation at 0x7f8a01200000 of size 1,024 bytes
=========
========= ERROR SUMMARY: 1 error
"""
RACE = """========= Error: Race reported between Write access at NAME+0x140
=========     and Read access at NAME+0xe0 [4 hazards]
=========
========= RACECHECK SUMMARY: 1 hazard displayed (1 error, 0 warnings)
"""
RIGHT = candidate("return self.right(x)")


class StandIn:
    """A compute-sanitizer that says what a test wants it to say."""

    def __init__(self, place: Path) -> None:
        self.place = place
        (place / "compute-sanitizer").write_text(STAND_IN)
        (place / "compute-sanitizer").chmod(0o755)
        self.says(memcheck=CLEAN, racecheck=CLEAN_RACES, synccheck=CLEAN)
        self.before("")

    def says(self, **logs: str) -> None:
        """What each tool writes when its command has ended."""
        for tool, text in logs.items():
            (self.place / f"{tool}.txt").write_text(text)

    def before(self, script: str) -> None:
        """What it does before the command."""
        (self.place / "before.sh").write_text(script)


@pytest.fixture
def stand_in(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> StandIn:
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    return StandIn(tmp_path)


@pytest.fixture(scope="module")
def judge(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalJudge]:
    judge = quick_judge(tmp_path_factory.mktemp("judge"), compile_seconds=20.0)
    yield judge
    judge.close()


def sanitized(judge: LocalJudge, tried: Candidate) -> Sanitized:
    return sanitize(judge._bench, check_text(tried), judge._bench.fresh_book())


@needs_landlock
def test_an_honest_program_comes_through_every_tool(judge: LocalJudge, stand_in: StandIn) -> None:
    found = sanitized(judge, RIGHT)
    assert (found.summary, found.notes) == ("compute-sanitizer (memcheck, racecheck, synccheck)", [])


@needs_landlock
def test_a_finding_is_wrong(judge: LocalJudge, stand_in: StandIn) -> None:
    stand_in.says(memcheck=WRITE)
    with pytest.raises(Rejected) as rejected:
        sanitized(judge, RIGHT)
    assert (rejected.value.kind, rejected.value.stage) == (VerdictKind.WRONG, Stage.INTEGRITY)
    assert rejected.value.reason == (
        "it writes 4 bytes of global memory past the end of a block of 1024 bytes (as long as weight weight), "
        "at byte 0 behind it, in kernel scale, thread (0,0,0) of block (0,0,0) (compute-sanitizer memcheck)"
    )
    assert "Invalid __global__ write" in rejected.value.detail


TAMPERING = """
import glob, pathlib
place = pathlib.Path.cwd().parent / "report"
found = list(place.glob("*.log"))
assert found, "it is not there at all"
for path in [*found, *glob.glob("/proc/[0-9]*/fd/*")]:
    try:
        if str(path).endswith(".log") or os.readlink(path).endswith(".log"):
            open(path, "w").write("========= ERROR SUMMARY: 0 errors\\n")
    except OSError:
        pass
for number in range(3, 64):
    try:
        if os.readlink(f"/proc/self/fd/{number}").endswith(".log"):
            os.ftruncate(number, 0)
    except OSError:
        pass
for change in (lambda: found[0].unlink(), lambda: (place / "other.log").touch(), lambda: place.rename("gone")):
    try:
        change()
    except OSError:
        pass
    else:
        raise AssertionError("the candidate changed the report")
for pid in filter(str.isdigit, os.listdir("/proc")):
    if int(pid) != os.getpid():
        try:
            open(f"/proc/{pid}/mem", "r+b")
        except OSError:
            pass
        else:
            raise AssertionError("another process lies open")
print("========= Invalid __global__ write of size 4 bytes\\n========= ERROR SUMMARY: 0 errors", flush=True)
return self.right(x)
"""


@contextmanager
def budgets(judge: LocalJudge, **seconds: float) -> Iterator[None]:
    """Other settings for a while; the judge of this module is shared."""
    was = judge._bench.settings
    judge._bench.settings = was.model_copy(update=seconds)
    try:
        yield
    finally:
        judge._bench.settings = was


@needs_landlock
def test_a_candidate_can_neither_forge_nor_suppress_a_report(judge: LocalJudge, stand_in: StandIn) -> None:
    tried = candidate(TAMPERING)
    found = sanitized(judge, tried)
    assert (found.summary, found.notes) == ("compute-sanitizer (memcheck, racecheck, synccheck)", [])
    stand_in.before(f"cat >&9 <<'END'\n{WRITE}END\n")
    stand_in.says(memcheck="")
    with pytest.raises(Rejected):
        sanitized(judge, tried)


@needs_landlock
@pytest.mark.parametrize("kernel", ["void at::native::reduce<(int)4>(float *)", "block_sum(float *)"])
def test_a_race_is_a_suspicion_and_no_verdict(judge: LocalJudge, stand_in: StandIn, kernel: str) -> None:
    stand_in.says(racecheck=RACE.replace("NAME", kernel))
    found = sanitized(judge, RIGHT)
    assert found.tools == ["memcheck", "racecheck", "synccheck"]
    (note,) = found.notes
    assert note.startswith("memory: compute-sanitizer racecheck suspects: threads of a block race for shared memory")


def test_a_missing_tool_is_noted(judge: LocalJudge, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compute_sanitizer, "program", lambda: None)
    found = sanitized(judge, RIGHT)
    assert found.summary == "" and len(found.notes) == 1
    assert found.notes[0].startswith("memory: compute-sanitizer did not run: it is not installed (")


@needs_landlock
@pytest.mark.parametrize(
    ("before", "log", "words"),
    [
        (
            'echo "========= Error: No attachable process found. compute-sanitizer timed-out." >&9; exit 1',
            "",
            "it ended without a summary (exit code 1): No attachable process found. compute-sanitizer timed-out.",
        ),
        ('echo "unrecognised option --padding"; exit 255', "", "(exit code 255): unrecognised option --padding"),
        ('cat "$here/memcheck.txt" >&9; exit 0', CLEAN, "the candidate was not called"),
        ("kill -9 $$", "", "it ended without a summary (exit code -9)"),
    ],
    ids=["cannot attach", "unknown option", "clean without a call", "killed"],
)
def test_a_tool_that_does_not_work_here_is_noted(
    judge: LocalJudge, stand_in: StandIn, before: str, log: str, words: str
) -> None:
    stand_in.before(before)
    stand_in.says(memcheck=log)
    found = sanitized(judge, RIGHT)
    assert found.tools == []
    assert found.notes[0].startswith("memory: compute-sanitizer memcheck did not run: ") and words in found.notes[0]


@needs_landlock
def test_a_candidate_that_fails_under_a_tool_is_noted(judge: LocalJudge, stand_in: StandIn) -> None:
    found = sanitized(judge, candidate("raise RuntimeError('not under a sanitizer')"))
    assert found.tools == []
    assert "under it the candidate fails: RuntimeError: not under a sanitizer" in found.notes[0]


@needs_landlock
def test_a_tool_that_hangs_is_ended(judge: LocalJudge, stand_in: StandIn, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gpu_sanitizer, "_START_SECONDS", 0.0)
    stand_in.before('[ "$tool" = synccheck ] || sleep 100')
    with budgets(judge, memory_check_seconds=0.5, compile_seconds=0.5):
        found = sanitized(judge, RIGHT)
    assert found.notes[:2] == [
        "memory: compute-sanitizer memcheck did not run: it did not end in time",
        "memory: compute-sanitizer racecheck did not run: it did not end in time",
    ]


@needs_landlock
def test_the_walls_stand_round_a_tool(judge: LocalJudge, tmp_path: Path) -> None:
    bench = judge._bench
    plain, place = bench.workers.open_candidate()
    other = bench.workers.make_place("starter-")
    (other / "report").mkdir()
    starter = bench.workers.open_starter(other, other / "report", tmp_path)
    for session in (plain, starter):
        session.close()
    for path in (place, other):
        bench.workers.clean(path)
    assert starter.handle.isolation == plain.handle.isolation


@needs_landlock
def test_workloads_that_are_too_large_are_noted(
    judge: LocalJudge, stand_in: StandIn, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(gpu_sanitizer, "_LARGEST_BYTES", 100)
    found = sanitized(judge, RIGHT)
    assert found.summary == ""
    assert found.notes[0].startswith("memory: these workloads are too large for compute-sanitizer: as-written")


# -- on a GPU ----------------------------------------------------------------------------------------------------------

on_gpu = pytest.mark.skipif(
    not torch.cuda.is_available() or program() is None, reason="there is no NVIDIA GPU, or no compute-sanitizer"
)

TRITON = """
import torch
import triton
import triton.language as tl


@triton.jit
def scale(x, w, y, n, columns, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = at < n
    value = tl.load(x + at, mask=inside)
    product = value * tl.load(w + at % columns, mask=inside)
    tl.store(y + at, tl.maximum(product, 0) + value, mask=at < n + 3)


class ModelNew(torch.nn.Module):
    def __init__(self, features):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.empty(features))

    def forward(self, x):
        x = x.contiguous()
        y = torch.empty_like(x)
        scale[(triton.cdiv(x.numel(), 1024) + 1,)](x, self.weight, y, x.numel(), x.shape[1], BLOCK=1024)
        return y
"""


def cuda_kernel(body: str) -> Candidate:
    (case,) = (case for case in corpus.good_kernels() if case.name == "cuda_gain")
    written = corpus.candidate(case)
    end = "y[i] = (p > 0 ? p : 0) + x[i];\n    }"
    assert end in written.source
    return Candidate(source=written.source.replace(end, f"{end}\n    {body}"), language="cuda")


@pytest.mark.nvidia
@pytest.mark.slow
@on_gpu
@pytest.mark.parametrize("name", ["triton_gain", "cuda_gain"])
def test_good_kernels_come_through_on_a_gpu(gpu_judge: LocalJudge, name: str) -> None:
    (case,) = (case for case in corpus.good_kernels() if case.name == name)
    found = sanitized(gpu_judge, corpus.candidate(case))
    assert (found.summary, found.notes) == ("compute-sanitizer (memcheck, racecheck, synccheck)", [])


@pytest.mark.nvidia
@pytest.mark.slow
@on_gpu
def test_memcheck_sees_a_write_past_the_end(gpu_judge: LocalJudge) -> None:
    with pytest.raises(Rejected, match=r"it writes 4 bytes of global memory .*in kernel scale.*memcheck"):
        sanitized(gpu_judge, Candidate(source=TRITON, language="triton"))


@pytest.mark.nvidia
@pytest.mark.slow
@on_gpu
def test_a_read_before_the_start_is_wrong(gpu_judge: LocalJudge) -> None:
    """Guarded memory sees it where the allocation begins at a page, memcheck elsewhere."""
    tried = cuda_kernel("if (blockIdx.x == 0 && threadIdx.x == 0 && x[-1] == 1.5f) y[0] += 1;")
    with pytest.raises(
        Rejected, match=r"it reads (4 bytes of global memory|or writes memory that belongs to no tensor)"
    ):
        examine(gpu_judge._bench, check_text(tried), gpu_judge._bench.fresh_book())


@pytest.mark.nvidia
@pytest.mark.slow
@on_gpu
@pytest.mark.parametrize(
    ("body", "words"),
    [
        (
            "__shared__ float s[256]; s[threadIdx.x] = x[threadIdx.x]; "
            "if (s[255 - threadIdx.x] == 1.5f) y[threadIdx.x] += 1;",
            "racecheck suspects: threads of a block race for shared memory",
        ),
        # Threads that have ended count as arrived at a barrier of the block: what is seen is one that is not asked for.
        (
            "unsigned half = __ballot_sync(0xffffffffu, threadIdx.x % 32 < 16); __syncwarp(half);",
            "synccheck suspects: threads of a block do not meet at a barrier",
        ),
    ],
    ids=["race", "barrier"],
)
def test_threads_that_do_not_wait_for_each_other_are_noted(gpu_judge: LocalJudge, body: str, words: str) -> None:
    assert any(words in note for note in sanitized(gpu_judge, cuda_kernel(body)).notes)
