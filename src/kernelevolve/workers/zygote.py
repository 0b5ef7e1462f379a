"""The zygote: a process that has imported torch and touched no device, and forks a worker for every request.

Importing torch takes seconds, forking a process that has done so takes milliseconds, and a device context can only be
made after the fork. The zygote has one thread, answers only the judge, and never runs a program: it hands the judge
the other end of the worker's socket and forgets it. When the judge closes the control socket, or dies, it ends, and
every supervisor with it.
"""

from __future__ import annotations

import gc
import importlib
import os
import signal
import socket
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import NoReturn

from kernelevolve.workers import isolation, task_groups, wire
from kernelevolve.workers.spawn import Spawn
from kernelevolve.workers.supervisor import Lines, kill_descendants, run_supervisor


@dataclass(slots=True)
class _Zygote:
    """What it holds as long as it lives."""

    control: socket.socket
    lifeline_read: int
    """Inherited by every supervisor, and readable for it when the zygote has ended, or gives ``lifeline_write`` up."""
    lifeline_write: int
    groups: task_groups.TaskGroups = field(default_factory=task_groups.TaskGroups)
    supervisors: set[int] = field(default_factory=set)


def main(control: int, preload: Sequence[str]) -> None:
    """Serve spawn requests on the descriptor ``control`` until it is closed.

    ``preload`` names modules that candidates will want; one that cannot be imported is left for them to miss.
    """
    sock = socket.socket(fileno=control)
    importlib.import_module("kernelevolve.workers.worker")
    missing = [name for name in preload if not _import(name)]
    isolation.become_subreaper()
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the judge's business.
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # No worker is waited for; the kernel forgets them.
    gc.collect()
    gc.freeze()
    zygote = _Zygote(sock, *os.pipe())
    wire.send_reply(sock, "zygote", {"pid": os.getpid(), "missing": missing})
    while True:
        try:
            request, _ = wire.receive_request(sock)
        except (EOFError, ConnectionError):
            os.close(zygote.lifeline_write)
            zygote.groups.close()
            return
        zygote.supervisors = {pid for pid in zygote.supervisors if _alive(pid)}
        kill_descendants(spare=frozenset(zygote.supervisors))
        zygote.groups.sweep()
        pid = _spawn(zygote, request)
        if pid is not None:
            zygote.supervisors.add(pid)


def _import(name: str) -> bool:
    try:
        importlib.import_module(name)
    except ImportError:
        return False
    return True


def _alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def _spawn(zygote: _Zygote, request: wire.Request) -> int | None:
    """Fork the supervisor of one worker, by way of a process that enters the namespaces; its pid."""
    judge_end, worker_end = socket.socketpair()
    exit_read, exit_write = os.pipe()
    pid_read, pid_write = os.pipe()
    group = zygote.groups.make()
    if os.fork() == 0:
        for descriptor in (zygote.lifeline_write, pid_read, exit_read):
            os.close(descriptor)
        zygote.control.close()
        judge_end.close()
        _enter(request.message, worker_end, exit_write, zygote.lifeline_read, pid_write, group)
    for descriptor in (exit_write, pid_write):
        os.close(descriptor)
    worker_end.close()
    told = os.read(pid_read, 16)
    os.close(pid_read)
    if told:
        pid = int(told)
        pidfd = os.pidfd_open(pid)
        wire.send_reply(zygote.control, request.token, {"pid": pid}, (judge_end.fileno(), pidfd, exit_read))
        os.close(pidfd)
    else:
        pid = None
        wire.send_reply(zygote.control, request.token, {"pid": 0})
    judge_end.close()
    os.close(exit_read)
    return pid


def _enter(
    spawn: Spawn, worker: socket.socket, exit_write: int, lifeline: int, pid_write: int, group: Path | None
) -> NoReturn:
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    try:
        log = os.open(spawn.log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        task_limit = None if group is None else task_groups.join(group)
        report = isolation.enter_namespaces(spawn.policy)
        if task_limit is not None:
            report["processes"] = task_groups.REPORT
        pid = os.fork()
        if pid == 0:
            os.close(pid_write)
            run_supervisor(spawn, Lines(worker, exit_write, lifeline, log, task_limit), report)
        os.write(pid_write, str(pid).encode())
    finally:
        os._exit(0)  # Without a word about a supervisor, if it came to none.
