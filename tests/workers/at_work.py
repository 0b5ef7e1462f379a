"""Workers to try things in: started with a choice of walls, told to run code, asked for values."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from itertools import count
from pathlib import Path

import pytest

from kernelevolve.workers import messages
from kernelevolve.workers.handle import ProgramRaised, WorkerHandle
from kernelevolve.workers.isolation import IsolationPolicy, Measure, interpreter_directories
from kernelevolve.workers.launcher import Launcher
from kernelevolve.workers.spawn import Spawn

_loads = count()


def start(
    launcher: Launcher, place: Path, measures: Iterable[Measure], threads: int = 1, **policy: object
) -> WorkerHandle:
    """A worker whose scratch is ``place/home``."""
    home = place / "home"
    (home / "tmp").mkdir(parents=True)
    made = IsolationPolicy(
        scratch=home,
        hidden=(Path("/tmp"), Path("/dev/shm")),
        visible=interpreter_directories(),
        measures=frozenset(measures),
        **policy,  # type: ignore[arg-type]
    )
    variables = {"HOME": str(home), "TMPDIR": str(home / "tmp"), "KERNELEVOLVE_BUILD_DIR": str(home / "build")}
    return launcher.spawn(Spawn(made, "cpu", threads, 1 << 20, variables, place / "output.txt"))


@contextmanager
def worker(launcher: Launcher, place: Path, measures: Iterable[Measure], threads: int = 1) -> Iterator[WorkerHandle]:
    """The same, killed at the end."""
    handle = start(launcher, place, measures, threads)
    try:
        yield handle
    finally:
        handle.kill()


def run(handle: WorkerHandle, code: str, timeout: float = 10.0) -> None:
    """Run code in the worker as the import of a candidate."""
    # Python takes sources of one length and second for the same, so no two may have the same length.
    model = "\nimport torch\nclass ModelNew(torch.nn.Module):\n    pass\n" + "#" * next(_loads)
    handle.ask(messages.Load(messages.CandidateProgram(code + model)), timeout)


def told(handle: WorkerHandle, expression: str) -> str:
    """The value of an expression in the worker; if it raises an exception, its words."""
    with pytest.raises(ProgramRaised) as raised:
        run(handle, f"import os, sys, pathlib, signal, socket\nraise RuntimeError(repr({expression}))")
    return raised.value.failed.message


def refused(handle: WorkerHandle, expression: str) -> bool:
    """Whether the worker may not do this."""
    words = told(handle, expression)
    return any(
        reason in words for reason in ("not permitted", "Permission denied", "Read-only", "No such", "unreachable")
    )


def gone(pid: int) -> bool:
    """Whether a process ends soon (a zombie has). It may take long: hundreds of others end with it on few processors."""
    deadline = time.monotonic() + 40
    while time.monotonic() < deadline:
        try:
            if Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] == "Z":
                return True
        except FileNotFoundError:
            return True
        time.sleep(0.02)
    return False
