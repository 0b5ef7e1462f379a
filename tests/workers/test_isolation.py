"""What a candidate might try, in a worker with every wall, and with those that need no namespaces."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from at_work import refused, run, told, worker

from kernelevolve.errors import KernelEvolveError
from kernelevolve.workers import sandbox
from kernelevolve.workers.handle import WorkerHandle
from kernelevolve.workers.isolation import Measure, module_path
from kernelevolve.workers.launcher import Launcher
from kernelevolve.workers.sandbox import Level, Sandbox, level_of, require

WALLS = {"all": frozenset(Measure), "without namespaces": frozenset({Measure.LANDLOCK, Measure.SECCOMP})}
FULL = {
    "mount": "own", "pid": "own", "ipc": "own", "network": "own", "files": "read-only", "capabilities": "none",
    "landlock": "on, ABI 7: files", "seccomp": "on",
}  # fmt: skip


@pytest.fixture(scope="module")
def launcher() -> Iterator[Launcher]:
    with Launcher(threads=2, preload=("kernelevolve.languages.cpp",)) as launcher:
        yield launcher


@pytest.fixture(scope="module", params=list(WALLS))
def handle(
    launcher: Launcher, tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest
) -> Iterator[WorkerHandle]:
    """A worker beside whose scratch lies that of another candidate."""
    place = tmp_path_factory.mktemp("candidates")
    (place / "other").mkdir()
    (place / "other" / "answer").write_text("42")
    with worker(launcher, place / "mine", WALLS[request.param], threads=2) as handle:
        if level_of(handle.isolation) is Level.NONE:
            pytest.skip(f"this kernel gives no such walls: {handle.isolation}")
        yield handle


# None of them does harm where it succeeds.
@pytest.mark.parametrize("attempt", [
    "open('/etc/passwd', 'a')",
    "open('/usr/left-behind', 'w')",
    "open('/var/tmp/left-behind', 'w')",
    "os.truncate('/etc/passwd', os.path.getsize('/etc/passwd'))",
    "os.rmdir('/etc')",
    "os.mkdir('/left-behind')",
    "os.rename('/etc/passwd', '/etc/passwd')",
    "open('../../other/answer').read()",
    "open('/proc/sys/kernel/core_pattern', 'w')",
    "open('/sys/kernel/profiling', 'w')",
    "open('/dev/kmsg', 'w')",
    "open('/dev/vda', 'rb')",
    "open('/dev/tty1', 'w')",
    "socket.socket()",
    "socket.socket(socket.AF_INET6, socket.SOCK_DGRAM)",
    "socket.socket(socket.AF_NETLINK, socket.SOCK_RAW)",
    "open(f'/proc/{os.getppid()}/mem', 'rb')",
    "open(f'/proc/{os.getppid()}/environ', 'rb').read()",
    "os.readlink(f'/proc/{os.getppid()}/fd/0')",
    "os.setuid(0) or open('/usr/left-behind', 'w')",
    "os.chroot('.')",
    "os.mknod('disk', 0o60600, os.makedev(8, 0))",
])  # fmt: skip
def test_is_refused(handle: WorkerHandle, attempt: str) -> None:
    assert refused(handle, attempt)


def test_what_it_writes_beside_its_scratch_does_not_arrive(handle: WorkerHandle) -> None:
    scratch = handle._policy.scratch
    told(handle, "open('../left-behind', 'w')")
    told(handle, "open('../../other/answer', 'w')")
    assert not (scratch.parent / "left-behind").exists()
    assert (scratch.parent.parent / "other" / "answer").read_text() == "42"


def test_cannot_signal_its_judge(handle: WorkerHandle) -> None:
    attempt = f"os.kill({os.getpid()}, 0)"
    assert refused(handle, attempt)
    assert refused(handle, "os.kill(os.getppid(), signal.SIGSTOP)")


def test_honest_work_goes_on(handle: WorkerHandle) -> None:
    run(
        handle,
        """
import os, subprocess, tempfile, threading
import torch
a = torch.randn(700, 700)
assert torch.get_num_threads() == 2
assert torch.allclose(a @ a, (a.double() @ a.double()).float(), atol=1e-2)
from kernelevolve.languages import cpp
cpp.build('extern "C" void f() {}')
with tempfile.TemporaryDirectory() as place, open(place + "/x", "w") as file:
    file.write("x")
    os.rename(place + "/x", "moved")
read, write = os.pipe()
thread = threading.Thread(target=os.write, args=(write, b"x"))
thread.start(); thread.join()
assert subprocess.run(["sh", "-c", "echo x >/dev/null; cat /dev/null; head -c 4 /dev/urandom | wc -c"], capture_output=True).stdout.strip() == b"4"
open("script", "w").write("#!/bin/sh\\nexit 7\\n"); os.chmod("script", 0o700)
assert subprocess.call(["./script"]) == 7
""",
        60,
    )


def test_torch_compile_works(handle: WorkerHandle) -> None:
    program = "import torch\ncompiled = torch.compile(lambda x: torch.relu(x) * 2 + 1)\nx = torch.randn(100)\n"
    run(handle, program + "assert torch.allclose(compiled(x), torch.relu(x) * 2 + 1)", 120)


def test_a_pool_of_processes_works(handle: WorkerHandle) -> None:
    if handle.isolation["mount"] != "own":
        pytest.skip("locks between processes lie in /dev/shm, which a worker has of its own only in a mount namespace")
    assert told(handle, "__import__('multiprocessing').get_context('fork').Pool(2).map(abs, [-1, 2])") == "[1, 2]"


@pytest.mark.parametrize(("change", "level"), [
    ({}, Level.FULL),
    ({"landlock": "refused: the kernel has none"}, Level.FULL),
    ({"seccomp": "refused: x"}, Level.PARTIAL),
    ({"pid": "refused: x"}, Level.PARTIAL),
    ({"capabilities": "kept: x"}, Level.PARTIAL),
    ({"mount": "refused: x", "files": "shared", "network": "refused: x"}, Level.PARTIAL),
    ({"mount": "refused: x", "files": "shared", "landlock": "refused: x"}, Level.NONE),
    ({"network": "refused: x", "seccomp": "refused: x"}, Level.NONE),
])  # fmt: skip
def test_level_is_what_the_report_amounts_to(change: dict[str, str], level: Level) -> None:
    assert level_of(FULL | change) is level


def test_nothing_reported_is_no_sandbox() -> None:
    assert level_of({}) is Level.NONE


def test_choice_decides_what_is_enough() -> None:
    partial, none = FULL | {"pid": "refused: not permitted"}, dict.fromkeys(FULL, "refused")
    for choice, report in (
        (Sandbox.AUTO, FULL), (Sandbox.AUTO, partial), (Sandbox.STRICT, FULL), (Sandbox.NONE, none), (Sandbox.NONE, {}),
    ):  # fmt: skip
        require(choice, report)
    with pytest.raises(KernelEvolveError, match=r"pid \(refused: not permitted\).*--sandbox auto"):
        require(Sandbox.STRICT, partial)
    with pytest.raises(KernelEvolveError, match="--sandbox none"):
        require(Sandbox.AUTO, none)


def test_probe_tells_what_a_worker_gets(launcher: Launcher, tmp_path: Path) -> None:
    with worker(launcher, tmp_path, Measure) as handle:
        assert sandbox.probe() == handle.isolation


def test_no_sandbox_has_to_be_asked_for(launcher: Launcher, tmp_path: Path) -> None:
    assert Sandbox.AUTO.measures == Sandbox.STRICT.measures == frozenset(Measure)
    with worker(launcher, tmp_path, Sandbox.NONE.measures) as handle:
        assert level_of(handle.isolation) is Level.NONE
        assert handle.isolation["seccomp"] == handle.isolation["network"] == "switched off"
        assert handle.isolation["capabilities"] == "none"


def test_modules_are_found_where_a_link_to_them_is_hidden(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A virtual environment may be reached through a link in /tmp, of which a worker has its own."""
    packages, link = tmp_path / "packages", tmp_path / "link"
    packages.mkdir()
    link.symlink_to(packages)
    monkeypatch.setattr(sys, "path", [str(link), "", "beside"])
    assert module_path() == [str(packages)]
