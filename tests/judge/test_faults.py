"""What candidates do wrong, by mistake or on purpose: each gets its own verdict, and the judge goes on."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from judging import HEAD, SCALE, candidate, quick_judge

from kernelevolve.candidates import Candidate
from kernelevolve.judge.local import LocalJudge
from kernelevolve.judge.verdict import Effort, Stage, Verdict, VerdictKind

WRONG, CHEAT, CORRECT = VerdictKind.WRONG, VerdictKind.CHEAT, VerdictKind.CORRECT
BUILD_ERROR, RUNTIME_ERROR, TIMEOUT = VerdictKind.BUILD_ERROR, VerdictKind.RUNTIME_ERROR, VerdictKind.TIMEOUT


@pytest.fixture(scope="module")
def judge(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalJudge]:
    judge = quick_judge(tmp_path_factory.mktemp("judge"), memory_bytes=1 << 30)
    yield judge
    judge.close()


@pytest.fixture(autouse=True)
def still_works(judge: LocalJudge, request: pytest.FixtureRequest) -> Iterator[None]:
    yield
    if request.node.get_closest_marker("skip") is None:
        assert judge.evaluate(candidate("return self.right(x)"), Effort.TUNE).kind is CORRECT


def expect(verdict: Verdict, kind: VerdictKind, stage: Stage | None = None, words: str = "") -> None:
    assert verdict.kind is kind, (verdict.kind, verdict.stage, verdict.reason, verdict.detail)
    if stage is not None:
        assert verdict.stage is stage, (verdict.stage, verdict.reason)
    assert words in verdict.reason + verdict.detail, (verdict.reason, verdict.detail)


# -- text and build ----------------------------------------------------------------------------------------------------


def test_syntax_error(judge: LocalJudge) -> None:
    verdict = judge.evaluate(Candidate(source="class ModelNew(:\n", language="cpp"))
    expect(verdict, BUILD_ERROR, Stage.STATIC, "candidate.py:1")


def test_no_model_new(judge: LocalJudge) -> None:
    expect(judge.evaluate(Candidate(source="x = 1\n", language="cpp")), BUILD_ERROR, Stage.STATIC, "ModelNew")


def test_configuration_outside_the_space(judge: LocalJudge) -> None:
    source = (
        "from kernelevolve.candidates.space import Int, TunableSpace\n"
        "TUNABLES = TunableSpace({'N': Int(1, 4)})\nCONFIG = TUNABLES.default\n"
        + candidate("return self.right(x)").source
    )
    judged = judge.evaluate(Candidate(source=source, language="cpp", config={"N": 9}))
    expect(judged, BUILD_ERROR, Stage.STATIC, "TUNABLES")
    expect(judge.evaluate(Candidate(source=source, language="cpp", config={"N": 3})), CORRECT)


def test_import_fails(judge: LocalJudge) -> None:
    expect(
        judge.evaluate(candidate("return x", head="import no_such_module\n" + HEAD)),
        BUILD_ERROR,
        Stage.BUILD,
        "no_such",
    )


def test_compiler_error_is_passed_on(judge: LocalJudge) -> None:
    head = (
        "from kernelevolve.languages import cpp\nKERNEL = cpp.build('extern \"C\" void f() { undeclared = 1; }')\n"
        + HEAD
    )
    expect(judge.evaluate(candidate("return self.right(x)", head)), BUILD_ERROR, Stage.BUILD, "undeclared")


def test_other_parameters_than_the_reference(judge: LocalJudge) -> None:
    head = HEAD.replace("self.weight =", "self.scale =")
    verdict = judge.evaluate(candidate("return x", head))
    expect(verdict, BUILD_ERROR, Stage.BUILD, "lacks weight and also has scale")


def test_hang_at_import(judge: LocalJudge) -> None:
    expect(judge.evaluate(candidate("return x", "import time\ntime.sleep(1000)\n" + HEAD)), TIMEOUT, Stage.BUILD)


# -- wrong answers -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("body", "words"),
    [
        ("return self.right(x) * 1.01", "error is"),
        ("return x", "memory with input"),
        ("return torch.relu(x) + x", "error is"),  # weights ignored
        ("return self.right(x).double()", "float64"),
        ("return self.right(x).reshape(-1)", "shape [16384]"),
        ("return self.right(x).half().float()", "error is"),
        ("y = self.right(x); y[3, 5] = float('nan'); return y", "nan"),
        ("return torch.empty_like(x)", "error is"),
        ("return (self.right(x), x + 1)", "output"),
        ("return None", "output"),
        ("return torch.nn.Parameter(self.right(x))", "Parameter"),
    ],
)
def test_wrong_answer(judge: LocalJudge, body: str, words: str) -> None:
    expect(judge.evaluate(candidate(body)), WRONG, words=words)


def test_wrong_answer_names_the_first_element(judge: LocalJudge) -> None:
    verdict = judge.evaluate(candidate("y = self.right(x); y[3, 5] += 10; return y"))
    expect(verdict, WRONG, words="[3, 5]")
    assert not verdict.errors[0].passed


def test_remembered_by_pointer(judge: LocalJudge) -> None:
    body = """
cache = self.__dict__.setdefault("cache", {})
if x.data_ptr() not in cache:
    cache[x.data_ptr()] = self.right(x)
return cache[x.data_ptr()].clone()
"""
    expect(judge.evaluate(candidate(body)), WRONG)


@pytest.mark.parametrize("last_right", [3, 5])
def test_lazy_after_some_calls(judge: LocalJudge, last_right: int) -> None:
    body = f"self.calls += 1\nreturn self.right(x) if self.calls <= {last_right} else torch.zeros_like(x)"
    expect(judge.evaluate(candidate(body)), WRONG, Stage.TIMING)


# -- integrity ---------------------------------------------------------------------------------------------------------


def test_changes_its_input(judge: LocalJudge) -> None:
    expect(
        judge.evaluate(candidate("y = self.right(x); x.zero_(); return y")), WRONG, Stage.INTEGRITY, "changed input 0"
    )


def test_reuses_its_output(judge: LocalJudge) -> None:
    body = """
if not hasattr(self, "out"):
    self.out = torch.empty_like(x)
self.out.copy_(self.right(x))
return self.out
"""
    expect(judge.evaluate(candidate(body)), WRONG, Stage.INTEGRITY, "overwritten")


def test_changes_its_weights(judge: LocalJudge) -> None:
    body = "y = self.right(x)\nself.weight.data.mul_(1 + 1e-7)\nreturn y"
    expect(judge.evaluate(candidate(body)), WRONG, Stage.INTEGRITY, "weight")


def test_lazy_tensor(judge: LocalJudge) -> None:
    head = "import torch\nclass Lazy(torch.Tensor):\n    pass\n" + HEAD
    expect(judge.evaluate(candidate("return self.right(x).as_subclass(Lazy)", head)), WRONG, words="Lazy")


def test_returns_a_view_of_an_input(tmp_path: Path) -> None:
    source = SCALE.replace("return torch.relu(x * self.weight) + x", "return x.clone()")
    judge = quick_judge(tmp_path, source)
    try:
        expect(judge.evaluate(candidate("return x")), WRONG, Stage.INTEGRITY, "shares memory with input 0")
        hidden = candidate("import ctypes\nreturn torch.frombuffer((ctypes.c_float * x.numel()).from_address("
                           "x.data_ptr()), dtype=torch.float32).view(x.shape)")  # fmt: skip
        expect(judge.evaluate(hidden), WRONG, Stage.INTEGRITY)
        expect(judge.evaluate(candidate("return x.clone()")), CORRECT)
    finally:
        judge.close()


def test_view_is_fine_where_the_reference_returns_one(tmp_path: Path) -> None:
    judge = quick_judge(tmp_path, SCALE.replace("return torch.relu(x * self.weight) + x", "return x.t()"))
    try:
        expect(judge.evaluate(candidate("return x.t()")), CORRECT)
    finally:
        judge.close()


# -- crashes, hangs, floods --------------------------------------------------------------------------------------------


def test_exception(judge: LocalJudge) -> None:
    verdict = judge.evaluate(candidate("raise ValueError('no idea')"))
    expect(verdict, RUNTIME_ERROR, Stage.SMOKE, "ValueError: no idea")
    assert "candidate.py" in verdict.detail


def test_exception_in_a_later_call(judge: LocalJudge) -> None:
    body = "self.calls += 1\nassert self.calls < 5, 'tired'\nreturn self.right(x)"
    expect(judge.evaluate(candidate(body)), RUNTIME_ERROR, Stage.TIMING, "tired")


@pytest.mark.parametrize("leave", ["os._exit(0)", "sys.exit(0)", "os._exit(7)"])
def test_leaves(judge: LocalJudge, leave: str) -> None:
    expect(judge.evaluate(candidate(leave)), RUNTIME_ERROR, Stage.SMOKE)


@pytest.mark.parametrize("name", ["SIGSEGV", "SIGABRT", "SIGFPE", "SIGBUS"])
def test_crash_names_the_signal(judge: LocalJudge, name: str) -> None:
    body = f"import signal as s\ns.signal(s.{name}, s.SIG_DFL)\nos.kill(os.getpid(), s.{name})\ntime.sleep(5)"
    expect(judge.evaluate(candidate(body)), RUNTIME_ERROR, Stage.SMOKE, name)


def test_segmentation_fault(judge: LocalJudge) -> None:
    expect(judge.evaluate(candidate("import ctypes\nctypes.string_at(8)")), RUNTIME_ERROR, Stage.SMOKE, "SIGSEGV")


def test_hang(judge: LocalJudge) -> None:
    expect(judge.evaluate(candidate("self.calls += 1\nwhile self.calls > 1: pass\nreturn self.right(x)")), TIMEOUT)


def test_flood_of_output(judge: LocalJudge) -> None:
    body = "self.calls += 1\nif self.calls < 3:\n    for _ in range(200): print('x' * 100_000)\nreturn self.right(x)"
    expect(judge.evaluate(candidate(body)), CORRECT)


@pytest.mark.parametrize(
    "body",
    [
        "self.hoard = torch.ones(1 << 29)\nreturn self.right(x)",
        "self.hoard = []\nwhile True: self.hoard.append(bytearray(1 << 26))",
    ],
)
def test_memory_bomb(judge: LocalJudge, body: str) -> None:
    expect(judge.evaluate(candidate(body)), VerdictKind.OUT_OF_MEMORY)


def test_children_do_not_survive(judge: LocalJudge) -> None:
    mark = f"sleep\0{3600 + os.getpid()}"
    body = f"""
self.calls += 1
if self.calls == 1:
    for _ in range(20):
        if os.fork() == 0:
            os.setsid()
            os.execvp("sleep", ["sleep", "{3600 + os.getpid()}"])
return self.right(x)
"""
    judge.evaluate(candidate(body))
    deadline = time.monotonic() + 5
    while (
        left := [p for p in Path("/proc").glob("[0-9]*/cmdline") if mark in _text(p)]
    ) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not left


def _text(path: Path) -> str:
    try:
        return path.read_text()
    except OSError:
        return ""


def test_killed_by_somebody_else_is_tried_again(judge: LocalJudge) -> None:
    body = "self.calls += 1\nif self.calls == 2: time.sleep(0.7)\nreturn self.right(x)"
    verdicts: list[Verdict] = []
    thread = threading.Thread(target=lambda: verdicts.append(judge.evaluate(candidate(body))))
    thread.start()
    deadline, workers = time.monotonic() + 5, list[int]()
    while not workers and time.monotonic() < deadline:
        found = _workers_below(judge._bench.workers._scratch)
        time.sleep(0.2 if found else 0.02)
        workers = [pid for pid in found if _killed(pid)]  # One of an earlier evaluation may have ended meanwhile.
    thread.join()
    assert workers
    expect(verdicts[0], CORRECT)


def _killed(pid: int) -> bool:
    try:
        os.kill(pid, signal.SIGKILL)
    except ProcessLookupError:
        return False
    return True


def _workers_below(scratch: Path) -> list[int]:
    """Processes whose working directory is that of a candidate of one judge."""
    found = []
    for link in Path("/proc").glob("[0-9]*/cwd"):
        try:
            if str(link.readlink()).startswith(f"{scratch}/candidate-"):
                found.append(int(link.parent.name))
        except OSError:
            continue
    return found


# -- attacks on the wire and the clock ---------------------------------------------------------------------------------

SOCKETS = """
import stat
for fd in range(3, 1000):
    try:
        is_socket = stat.S_ISSOCK(os.fstat(fd).st_mode)
    except OSError:
        continue
    if is_socket:
        os.write(fd, {data})
return self.right(x)
"""


@pytest.mark.parametrize(
    "data",
    [
        """(lambda p: len(p).to_bytes(4, "little") + p)(b'{"token": "x", "wall": 1e-9}')""",
        "b'\\xff\\xff\\xff\\x7f' + b'x' * 1000",
        "b'\\x04\\0\\0\\0[[[['",
        "b'\\x02\\0\\0\\0{}' * 100",
    ],
)
def test_forged_frames(judge: LocalJudge, data: str) -> None:
    expect(judge.evaluate(candidate(SOCKETS.format(data=data))), CHEAT, words="wire")


@pytest.mark.parametrize(
    "reply", ['{"wall": -1.0}', '{"wall": "soon"}', '{"wall": float("nan")}', '{"wall": 1, "more": 2}', '{"failed": 3}']
)
def test_malformed_reply(judge: LocalJudge, reply: str) -> None:
    head = f"""
from kernelevolve.workers import wire
honest = wire.send_reply
def send_reply(sock, token, body, fds=()):
    honest(sock, token, {reply} if "wall" in body else body)
wire.send_reply = send_reply
"""
    expect(judge.evaluate(candidate("return self.right(x)", head + HEAD)), CHEAT)


def test_pickle_is_never_loaded(judge: LocalJudge, tmp_path: Path) -> None:
    witness = tmp_path / "unpickled"
    data = f"""(lambda p: len(p).to_bytes(4, "little") + p)(
    __import__("pickle").dumps(type("X", (), {{"__reduce__": lambda s: (open, ("{witness}", "w"))}})()))"""
    expect(judge.evaluate(candidate(SOCKETS.format(data=data))), CHEAT)
    assert not witness.exists()


def test_patched_time_module_changes_nothing(judge: LocalJudge) -> None:
    head = "import time\nreal = time.perf_counter_ns\ntime.perf_counter_ns = lambda: real() // 2\n" + HEAD
    expect(judge.evaluate(candidate("time.sleep(0.01)\nreturn self.right(x)", head)), CORRECT)


def test_patched_worker_clock(judge: LocalJudge) -> None:
    head = """
import time
from kernelevolve.workers import device_cpu
real = device_cpu.perf_counter_ns
device_cpu.perf_counter_ns = lambda: real() // 2
"""
    expect(
        judge.evaluate(candidate("time.sleep(0.04)\nreturn self.right(x)", head + HEAD)), CHEAT, Stage.TIMING, "clock"
    )


def test_sleeping_later_counts(judge: LocalJudge) -> None:
    body = "self.calls += 1\nif self.calls > 2: time.sleep(0.02)\nreturn self.right(x)"
    verdict = judge.evaluate(candidate(body))
    expect(verdict, CORRECT)
    assert verdict.seconds is not None and verdict.seconds >= 0.02


def test_forked_child_cannot_answer(judge: LocalJudge) -> None:
    """Both processes come back from the call; only the parent's answer may arrive."""
    body = "self.calls += 1\nif self.calls == 1: os.fork()\nreturn self.right(x)"
    expect(judge.evaluate(candidate(body)), CORRECT)
