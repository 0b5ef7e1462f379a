"""The judge's side of the zygote: start it, ask it for workers, end it."""

from __future__ import annotations

import contextlib
import json
import os
import socket
import subprocess
import sys
import threading
from collections.abc import Mapping, Sequence
from types import TracebackType
from typing import Any

from kernelevolve.workers import wire
from kernelevolve.workers.handle import WorkerDied, WorkerHandle
from kernelevolve.workers.isolation import module_path
from kernelevolve.workers.spawn import Spawn

_START_SECONDS = 120.0
_SPAWN_SECONDS = 20.0
_PASSED_ON = frozenset(
    {"PATH", "LANG", "LC_ALL", "LD_LIBRARY_PATH", "CC", "CXX", "CUDA_HOME", "CUDA_PATH", "CUDA_VISIBLE_DEVICES", "TZ"}
)
"""Environment variables that a worker inherits; everything else stays with the judge."""
_BOOTSTRAP = (
    "import json, sys; sys.path[:], control, preload = json.loads(sys.argv[1]); "
    "from kernelevolve.workers.zygote import main; main(control, preload)"
)

COMMON_MODULES = ("numpy", "kernelevolve.candidates", "kernelevolve.languages")


class Launcher:
    """Starts workers. Thread-safe. The zygote starts on first use, or ahead of it with ``start``.

    ``environment`` adds variables to what every process of it has from its first instruction on.
    """

    def __init__(
        self, *, threads: int, preload: Sequence[str] = (), environment: Mapping[str, str] | None = None
    ) -> None:
        self._environment = _environment(threads) | dict(environment or {})
        self._preload = [*COMMON_MODULES, *preload]
        self._lock = threading.Lock()
        self._control: socket.socket | None = None
        self._process: subprocess.Popen[bytes] | None = None
        self._ready = False
        self._closed = False

    def start(self) -> None:
        """Start the zygote without waiting for its imports."""
        with self._lock:
            self._ensure()

    def _ensure(self) -> socket.socket:
        if self._control is not None and self._process is not None and self._process.poll() is None:
            return self._control
        self._shut_down()
        ours, theirs = socket.socketpair()
        argument = json.dumps([module_path(), theirs.fileno(), self._preload])
        with theirs:
            self._process = subprocess.Popen(
                [sys.executable, "-I", "-c", _BOOTSTRAP, argument],
                env=self._environment,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                pass_fds=[theirs.fileno()],
                start_new_session=True,
            )
        self._control = ours
        self._ready = False
        return ours

    def spawn(self, spawn: Spawn) -> WorkerHandle:
        """A new worker, greeted and ready. WorkerDied if it could not be started, or after ``close``."""
        with self._lock:
            if self._closed:
                raise WorkerDied(None, None)
            control = self._ensure()
            try:
                if not self._ready:
                    _reply(control, "zygote", _START_SECONDS)
                    self._ready = True
                request = wire.Request.of(spawn)
                control.settimeout(_SPAWN_SECONDS)
                control.sendall(wire.encode_request(request))
                body, descriptors = _reply(control, request.token, _SPAWN_SECONDS)
            except (OSError, EOFError, wire.WireViolation):
                self._shut_down()
                raise WorkerDied(None, None) from None
        if not body["pid"] or len(descriptors) != 3:
            raise WorkerDied(None, None)
        sock, pidfd, exit_pipe = descriptors
        handle = WorkerHandle(socket.socket(fileno=sock), int(body["pid"]), pidfd, exit_pipe, spawn.policy, spawn.log)
        handle.greet(_SPAWN_SECONDS)
        return handle

    def close(self) -> None:
        """End the zygote and with it every worker, for good."""
        with self._lock:
            self._closed = True
            self._shut_down()

    def _shut_down(self) -> None:
        if self._control is not None:
            self._control.close()
            self._control = None
        if self._process is not None:
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._process.wait(timeout=2)
            self._process.kill()
            self._process.wait()
            self._process = None

    def __enter__(self) -> Launcher:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def _environment(threads: int) -> dict[str, str]:
    """The zygote's environment. The thread counts must be there before the runtimes that read them are loaded."""
    counts = dict.fromkeys(("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS"), str(threads))
    return {name: value for name, value in os.environ.items() if name in _PASSED_ON} | counts


def _reply(control: socket.socket, token: str, timeout: float) -> tuple[dict[str, Any], list[int]]:
    """One reply of the zygote and the descriptors that came with it."""
    control.settimeout(timeout)
    reader = wire.ReplyReader()
    descriptors: list[int] = []
    while True:
        data, found, _, _ = socket.recv_fds(control, 1 << 16, wire.DESCRIPTOR_LIMIT)
        descriptors += found
        if not data:
            raise EOFError
        body = reader.feed(data, token)
        if body is not None:
            return body, descriptors
