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
from typing import NoReturn

from kernelevolve.workers import isolation, wire
from kernelevolve.workers.supervisor import Lines, Spawn, kill_descendants, run_supervisor


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
    lifeline_read, lifeline_write = os.pipe()
    wire.send_reply(sock, "zygote", {"pid": os.getpid(), "missing": missing})
    supervisors: set[int] = set()
    while True:
        try:
            request, _ = wire.receive_request(sock)
        except (EOFError, ConnectionError):
            return
        supervisors = {pid for pid in supervisors if _alive(pid)}
        kill_descendants(spare=frozenset(supervisors))
        pid = _spawn(sock, request, lifeline_read, lifeline_write)
        if pid is not None:
            supervisors.add(pid)


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


def _spawn(control: socket.socket, request: wire.Request, lifeline_read: int, lifeline_write: int) -> int | None:
    """Fork the supervisor of one worker, by way of a process that enters the namespaces; its pid."""
    judge_end, worker_end = socket.socketpair()
    exit_read, exit_write = os.pipe()
    pid_read, pid_write = os.pipe()
    if os.fork() == 0:
        for descriptor in (lifeline_write, pid_read, exit_read):
            os.close(descriptor)
        control.close()
        judge_end.close()
        _enter(request.message, worker_end, exit_write, lifeline_read, pid_write)
    for descriptor in (exit_write, pid_write):
        os.close(descriptor)
    worker_end.close()
    told = os.read(pid_read, 16)
    os.close(pid_read)
    if told:
        pid = int(told)
        pidfd = os.pidfd_open(pid)
        wire.send_reply(control, request.token, {"pid": pid}, (judge_end.fileno(), pidfd, exit_read))
        os.close(pidfd)
    else:
        pid = None
        wire.send_reply(control, request.token, {"pid": 0})
    judge_end.close()
    os.close(exit_read)
    return pid


def _enter(spawn: Spawn, worker: socket.socket, exit_write: int, lifeline: int, pid_write: int) -> NoReturn:
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    try:
        log = os.open(spawn.log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        report = isolation.enter_namespaces(spawn.policy)
        pid = os.fork()
        if pid == 0:
            os.close(pid_write)
            run_supervisor(spawn, Lines(worker, exit_write, lifeline, log), report)
        os.write(pid_write, str(pid).encode())
    finally:
        os._exit(0)  # Without a word about a supervisor, if it came to none.
