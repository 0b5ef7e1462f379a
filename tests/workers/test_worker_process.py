"""Real workers from a real zygote: what they are shut into, what they answer, and how they end."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import at_work
import pytest
import torch
from at_work import gone, run, told

from kernelevolve.workers import messages, worker
from kernelevolve.workers.device_cpu import CpuArenaMaker
from kernelevolve.workers.devices import worker_device
from kernelevolve.workers.handle import (
    ProgramRaised,
    WorkerDied,
    WorkerFailure,
    WorkerHandle,
    WorkerOverLimit,
    WorkerTimeout,
)
from kernelevolve.workers.isolation import IsolationPolicy, Measure
from kernelevolve.workers.launcher import Launcher
from kernelevolve.workers.layout import Layout
from kernelevolve.workers.spawn import Spawn
from kernelevolve.workers.supervisor import OUTPUT_LIMIT

Start = Callable[..., WorkerHandle]


@pytest.fixture(scope="module")
def launcher() -> Iterator[Launcher]:
    with Launcher(threads=1) as launcher:
        yield launcher


@pytest.fixture(params=[frozenset(Measure), frozenset()], ids=["walls", "plain"])
def start(launcher: Launcher, tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Start]:
    handles: list[WorkerHandle] = []

    def spawn(**policy: object) -> WorkerHandle:
        handle = at_work.start(launcher, tmp_path / f"worker{len(handles)}", request.param, **policy)
        handles.append(handle)
        return handle

    yield spawn
    for handle in handles:
        handle.kill()


def test_one_call_through_shared_memory(start: Start) -> None:
    handle, maker = start(), CpuArenaMaker()
    source = "import torch\nclass ModelNew(torch.nn.Module):\n    def forward(self, x):\n        return x + 1, 'done'\n"
    handle.ask(messages.Load(messages.CandidateProgram(source)), 10)
    layout = Layout()
    slot = layout.place(torch.zeros(3))
    given, taken = maker.make(layout.bytes), maker.make(layout.bytes)
    for arena in (given, taken):
        handle.ask(messages.Share(arena.handle), 10, arena.descriptors)
    handle.ask(messages.Construct("i", (), {}, frozenset(), given.handle.name), 10)
    handle.ask(messages.Bind({"b": (slot,)}, given.handle.name), 10)
    for base in (0.0, 5.0):
        slot.write(given.memory, torch.arange(3.0) + base)
        handle.ask(messages.Prepare(("b",)), 10)
        exchange = handle.ask(messages.Run("i", (("b", "out"),)), 10)
        assert isinstance(exchange.reply, messages.Ran)
        assert 0 < exchange.reply.wall < exchange.seconds
        described = handle.ask(messages.Describe((("out", "b"),)), 10).reply
        assert isinstance(described, messages.Described)
        assert [(o.path, o.type, o.value) for o in described.outputs[0]] == [
            ("0", "torch.Tensor", None),
            ("1", "builtins.str", "done"),
        ]
        handle.ask(messages.Pull((("out", {"0": slot}),), taken.handle.name), 10)
        assert torch.equal(slot.view(taken.memory), torch.arange(3.0) + base + 1)


def test_memory_of_the_judge_cannot_be_shrunk() -> None:
    (descriptor,) = CpuArenaMaker().make(4096).descriptors
    with pytest.raises(PermissionError):
        os.ftruncate(descriptor, 0)


def test_environment_is_stripped(start: Start, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SECRET_TOKEN", "x")
    handle = start()
    assert told(handle, "sorted(set(os.environ) & {'SECRET_TOKEN', 'PYTHONPATH'})") == "[]"
    assert told(handle, "os.environ['HOME'] == os.getcwd()") == "True"


def test_has_no_descriptors_but_its_own(start: Start) -> None:
    handle = start()
    links = (
        "[os.readlink(p) for p in map('/proc/self/fd/{}'.format, os.listdir('/proc/self/fd')) if os.path.lexists(p)]"
    )
    listing = told(handle, links)
    kinds = sorted(link.split(":")[0] for link in eval(listing))
    assert kinds == ["/dev/null", "pipe", "pipe", "socket"]


def test_new_privileges_are_ruled_out(start: Start) -> None:
    status = told(start(), "pathlib.Path('/proc/self/status').read_text()")
    assert "NoNewPrivs:\\t1" in status and "CapEff:\\t0000000000000000" in status


def test_namespaces_shut_it_in(start: Start) -> None:
    handle = start()
    if handle.isolation["pid"] != "own" or handle.isolation["files"] != "read-only":
        pytest.skip(f"not here: {handle.isolation}")
    assert int(told(handle, "os.getpid()")) < 10
    assert told(handle, "sorted(int(p) for p in os.listdir('/proc') if p.isdigit())[:2]") == "[1, 2]"
    assert told(handle, "os.listdir('/dev/shm')") == "[]"
    assert told(handle, "os.listdir('/run')") == "[]"
    assert told(handle, "[p.name for p in pathlib.Path('/dev').iterdir() if p.is_block_device()]") == "[]"
    assert told(handle, "(os.access('/usr', os.W_OK), os.access('.', os.W_OK))") == "(False, True)"
    with pytest.raises(ProgramRaised, match="Read-only"):
        run(handle, "open('/usr/left-behind', 'w')")


def test_exception_leaves_the_worker_alive(start: Start) -> None:
    handle = start()
    for error in ("ValueError('x')", "SystemExit(3)", "KeyboardInterrupt()"):
        with pytest.raises(ProgramRaised):
            run(handle, f"raise {error}")
    assert handle.alive


def test_timeout_kills(start: Start) -> None:
    handle = start()
    with pytest.raises(WorkerTimeout):
        run(handle, "while True: pass", timeout=0.3)
    assert gone(handle.pid) and not handle.alive


@pytest.mark.parametrize(("code", "signal_name", "exit_code"), [
    ("import os; os._exit(3)", "", 3),
    ("import ctypes; ctypes.string_at(8)", "SIGSEGV", None),
    ("import os; os.abort()", "SIGABRT", None),
    ("import os, signal; os.kill(os.getpid(), signal.SIGKILL)", "SIGKILL", None),
])  # fmt: skip
def test_death_is_told(start: Start, code: str, signal_name: str, exit_code: int | None) -> None:
    with pytest.raises(WorkerDied) as died:
        run(start(), code)
    assert (died.value.signal_name, died.value.code) == (signal_name, exit_code)


def test_whole_family_dies_with_it(start: Start) -> None:
    handle = start()
    mark = str(7200 + os.getpid())
    run(
        handle,
        f"""
import os
for _ in range(3):
    if os.fork() == 0:
        os.setsid()
        if os.fork() == 0:
            os.execvp("sleep", ["sleep", "{mark}"])
        os._exit(0)
""",
    )
    sleeping: list[Path] = []
    while len(sleeping) < 3:
        sleeping = [p for p in Path("/proc").glob("[0-9]*") if mark.encode() in _read(p / "cmdline")]
    handle.kill()
    assert all(gone(int(path.name)) for path in sleeping)


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError:
        return b""


FORK_BOMB = """
import os
while True:
    try:
        os.fork()
    except OSError:
        pass
"""


def test_fork_bomb_ends_and_leaves_nothing_behind(start: Start) -> None:
    handle = start()
    if not handle.isolation["processes"].startswith("at most") and handle.isolation["pid"] != "own":
        pytest.skip(f"nothing here stops a fork bomb but the judge's count: {handle.isolation}")
    with pytest.raises(WorkerFailure):
        run(handle, FORK_BOMB, timeout=120)
    assert gone(handle.pid)
    scratch = str(handle._policy.scratch)
    deadline = time.monotonic() + 40
    while (
        left := [p for p in Path("/proc").glob("[0-9]*/cwd") if _target(p) == scratch]
    ) and time.monotonic() < deadline:
        time.sleep(0.1)
    assert not left


def test_many_processes_in_a_chain_are_too_many(start: Start) -> None:
    handle = start()
    chain = "import os, time\nwhile os.fork() == 0: depth = os.getpid()\ntime.sleep(60)"
    with pytest.raises(WorkerOverLimit) as over:
        run(handle, chain, timeout=120)  # Whoever forks takes the processors, the one who counts included.
    assert over.value.what == "processes"


def _target(link: Path) -> str:
    try:
        return str(link.readlink())
    except OSError:
        return ""


def test_output_is_kept_up_to_a_limit(start: Start) -> None:
    handle = start()
    run(handle, "print('first')\nfor _ in range(100): print('y' * 100_000)")
    output = handle.output()
    assert output.startswith("first") and OUTPUT_LIMIT // 2 < len(output) <= OUTPUT_LIMIT


def test_address_space_is_limited(start: Start) -> None:
    handle = start(memory_bytes=1 << 29)
    with pytest.raises(ProgramRaised) as raised:
        run(handle, "hoard = bytearray(1 << 30)")
    assert raised.value.failed.category == "memory"


def test_memory_of_children_counts(start: Start) -> None:
    handle = start(memory_bytes=1 << 29)
    child = "    if os.fork() == 0:\n        x = bytearray(200 << 20); time.sleep(60)\n"
    with pytest.raises(WorkerOverLimit) as over:
        run(handle, f"import os, time\nfor _ in range(4):\n{child}time.sleep(60)", timeout=30)
    assert over.value.what == "memory"


def test_files_are_limited(start: Start) -> None:
    handle = start(file_bytes=1 << 20)
    with pytest.raises(ProgramRaised, match="too large"):
        run(handle, "open('big', 'wb').write(bytes(2 << 20))")


def test_everything_dies_with_the_judge(tmp_path: Path) -> None:
    script = f"""
import sys, time
from pathlib import Path
from kernelevolve.workers.isolation import IsolationPolicy, Measure
from kernelevolve.workers.launcher import Launcher
from kernelevolve.workers.spawn import Spawn
home = Path({str(tmp_path)!r})
launcher = Launcher(threads=1)
policies = [IsolationPolicy(home, measures=frozenset(measures)) for measures in (Measure, ())]
handles = [launcher.spawn(Spawn(policy, "cpu", 1, 4096, {{}}, home / "log")) for policy in policies]
print(launcher._process.pid, *(h.pid for h in handles), flush=True)
time.sleep(60)
"""
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
    judge = subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, text=True, env=environment)
    assert judge.stdout is not None
    pids = [int(word) for word in judge.stdout.readline().split()]
    assert len(pids) == 3
    judge.send_signal(signal.SIGKILL)
    judge.wait()
    judge.stdout.close()
    assert all(gone(pid) for pid in pids)


def test_zygote_is_started_again(tmp_path: Path) -> None:
    policy = IsolationPolicy(tmp_path)
    with Launcher(threads=1) as launcher:
        first = launcher.spawn(Spawn(policy, "cpu", 1, 4096, {}, tmp_path / "log"))
        assert launcher._process is not None
        launcher._process.kill()
        launcher._process.wait()
        assert gone(first.pid)
        second = launcher.spawn(Spawn(policy, "cpu", 1, 4096, {}, tmp_path / "log"))
        assert second.alive


def test_without_a_captured_graph_nothing_is_replayed(start: Start) -> None:
    handle, maker = start(), CpuArenaMaker()
    source = "import torch\nclass ModelNew(torch.nn.Module):\n    def forward(self, x):\n        return x + 1\n"
    handle.ask(messages.Load(messages.CandidateProgram(source)), 10)
    arena = maker.make(64)
    handle.ask(messages.Share(arena.handle), 10, arena.descriptors)
    handle.ask(messages.Construct("i", (), {}, frozenset(), arena.handle.name), 10)
    handle.ask(messages.Bind({"b": (Layout().place(torch.ones(4)),)}, arena.handle.name), 10)
    with pytest.raises(ProgramRaised, match="no graph of this call has been captured"):
        handle.ask(messages.Run("i", (("b", "out"),), graph=True), 10)
    with pytest.raises(ProgramRaised):
        handle.ask(messages.CaptureGraph("i", "b"), 10)  # There is no GPU in it.
    handle.ask(messages.Run("i", (("b", "out"),)), 10)
    arena.close()


@pytest.mark.parametrize("training", [False, True])
def test_a_call_is_captured_in_the_mode_in_which_it_is_made(
    training: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = (
        "import torch\nclass ModelNew(torch.nn.Module):\n    def forward(self, x):\n"
        "        return x + torch.is_grad_enabled()\n"
    )
    monkeypatch.chdir(tmp_path)
    captured: list[torch.Tensor] = []
    monkeypatch.setattr(worker, "capture", lambda call: captured.append(call()))
    inside, maker = worker.Worker(worker_device("cpu", 1, 4096)), CpuArenaMaker()
    arena = maker.make(64)
    for message in (
        messages.Load(messages.CandidateProgram(source)),
        messages.Share(arena.handle),
        messages.Construct("i", (), {}, frozenset(), arena.handle.name, training=training),
        messages.Bind({"b": (Layout().place(torch.zeros(4)),)}, arena.handle.name),
    ):
        inside.answer(message, [os.dup(d) for d in arena.descriptors] if isinstance(message, messages.Share) else [])
    arena.memory.zero_()
    inside.answer(messages.CaptureGraph("i", "b"), [])
    inside.answer(messages.Run("i", (("b", "out"),)), [])
    assert captured[0].tolist() == [float(training)] * 4 == inside._kept["out"].tolist()
    arena.close()
