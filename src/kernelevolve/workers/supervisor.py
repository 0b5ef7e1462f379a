"""The supervisor: the process between the zygote and one worker.

It holds what the worker must not: the pipe on which the worker's end is told, and the file to which its output goes.
In a PID namespace of its own it is process 1, so its end is the end of everything the worker ever started; elsewhere
it adopts orphans and kills them one by one. It ends when the worker ends, when it is told to, or when the zygote does.
"""

from __future__ import annotations

import contextlib
import json
import os
import select
import signal
import socket
import sys
import traceback
from collections import deque
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import NoReturn

from kernelevolve.workers import isolation
from kernelevolve.workers.spawn import Spawn

OUTPUT_LIMIT = 64 << 10
"""Bytes of standard output and error that are kept; the rest is read and dropped."""


@dataclass(frozen=True, slots=True)
class Lines:
    """What connects one worker to the outside."""

    worker: socket.socket
    """The worker's end of the wire."""
    exit_write: int
    """Pipe to the judge, on which the worker's end is told; the worker never has it."""
    lifeline: int
    """Readable when the zygote has ended."""
    log: int
    """Output file, open for writing."""
    task_limit: int | None
    """Limit of the worker's control group, open for writing; None if it has none."""


def run_supervisor(spawn: Spawn, lines: Lines, report: dict[str, str]) -> NoReturn:
    """Arrange the place, fork the worker, watch it to its end. Never returns."""
    os.setsid()
    isolation.become_subreaper()
    isolation.arrange_file_system(spawn.policy, report)
    output_read, output_write = os.pipe()
    pid = os.fork()
    if pid == 0:
        _run_worker(spawn, lines, output_write, report)
    os.close(output_write)
    lines.worker.close()

    def stop(_signal: int, _frame: FrameType | None) -> None:
        _kill_all(pid, lines)
        os._exit(0)

    signal.signal(signal.SIGTERM, stop)
    status, dropped = _watch(pid, output_read, lines)
    _kill_all(pid, lines)
    code = os.waitstatus_to_exitcode(status)
    record = {"signal": -code if code < 0 else None, "code": code if code >= 0 else None, "dropped": dropped}
    with contextlib.suppress(OSError):
        os.write(lines.exit_write, json.dumps(record).encode())
    os._exit(0)


def _run_worker(spawn: Spawn, lines: Lines, output: int, report: dict[str, str]) -> NoReturn:
    try:
        isolation.die_with_parent()
        os.setsid()
        null = os.open(os.devnull, os.O_RDONLY)
        for source, target in ((null, 0), (output, 1), (output, 2)):
            os.dup2(source, target)
        keep = lines.worker.fileno()
        os.closerange(3, keep)
        os.closerange(keep + 1, os.sysconf("SC_OPEN_MAX"))
        os.chdir(spawn.policy.scratch)
        os.environ.update(spawn.environment)
        isolation.confine(spawn.policy, report)

        from kernelevolve.workers.worker import serve  # Imported by the zygote, which this module must not need.

        serve(lines.worker, spawn, report)
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stderr.flush()
        os._exit(70)


def _watch(pid: int, output: int, lines: Lines) -> tuple[int, int]:
    """Keep the worker's output until it ends; its wait status and the bytes of output that were dropped."""
    worker = os.pidfd_open(pid)
    os.set_blocking(output, False)
    poll = select.poll()
    for descriptor in (worker, output, lines.lifeline):
        poll.register(descriptor, select.POLLIN)
    kept = dropped = 0

    def keep() -> bool:
        nonlocal kept, dropped
        try:
            data = os.read(output, 1 << 16)
        except BlockingIOError:
            return False
        part = data[: max(0, OUTPUT_LIMIT - kept)]
        os.write(lines.log, part)
        kept, dropped = kept + len(part), dropped + len(data) - len(part)
        return bool(data)

    while True:
        ready = {descriptor for descriptor, _ in poll.poll()}
        if lines.lifeline in ready:
            _kill_all(pid, lines)
            os._exit(0)
        if worker in ready:
            # What a surviving child still writes is of no interest: the pipe's own capacity is all that is left.
            for _ in range(32):
                if not keep():
                    break
            return os.waitpid(pid, 0)[1], dropped
        if not keep():
            poll.unregister(output)


def _kill_all(pid: int, lines: Lines) -> None:
    """Kill the worker and whatever it started, also what left its session."""
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL)
    if os.getpid() == 1:
        return  # The kernel ends a PID namespace together with its first process.
    if lines.task_limit is not None:
        os.write(lines.task_limit, b"0")  # What forks faster than it can be killed forks no more.
    with contextlib.suppress(PermissionError):
        os.setpriority(os.PRIO_PROCESS, 0, -20)  # Hundreds that run would keep this process from running.
    with contextlib.suppress(ProcessLookupError):
        os.killpg(pid, signal.SIGKILL)  # Most at one stroke; some may have left the worker's group.
    kill_descendants()


def kill_descendants(spare: frozenset[int] = frozenset()) -> None:
    """Kill the children of this process (which adopts orphans) and theirs until there are none but those to spare."""
    while found := [child for child in _children(os.getpid()) if child not in spare]:
        # All before any is waited for: thousands that run keep one that waits from running.
        doomed = deque(found)
        while doomed:
            pid = doomed.popleft()
            # One to spare is for a moment the child of the process that forked it, which is not.
            doomed.extend(child for child in _children(pid) if child not in spare)
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        for child in found:
            with contextlib.suppress(ChildProcessError):
                os.waitpid(child, 0)


def _children(pid: int) -> list[int]:
    """The children of a process's first thread."""
    try:
        return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    except (FileNotFoundError, ProcessLookupError):
        return []
