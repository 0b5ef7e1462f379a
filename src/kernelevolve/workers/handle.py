"""The judge's hold on one worker: ask, wait with a deadline, learn how it ended, and end it."""

from __future__ import annotations

import contextlib
import json
import os
import select
import signal
import socket
import time
from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from kernelevolve.workers import messages, wire
from kernelevolve.workers.isolation import IsolationPolicy
from kernelevolve.workers.wire import WireViolation

_TICK_SECONDS = 0.25
"""How often a waiting judge looks at the worker's memory and processes."""
_FAREWELL_SECONDS = 1.0
_KILL_SECONDS = 5.0
"""For a supervisor to end all that a program started; whoever ends it before leaves orphans."""
_OWN_THREAD = Path("/proc/thread-self")
PROCESS_LIMIT = 256
"""Most processes that a worker may have at a time; a parallel build needs dozens."""


class WorkerFailure(Exception):
    """A worker did not answer a request."""


class WorkerTimeout(WorkerFailure):
    """No answer within the deadline; the worker has been killed."""

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        super().__init__(f"no answer within {seconds:.3g} s")


class WorkerOverLimit(WorkerFailure):
    """It took more than it may have, and has been killed. ``what`` is 'memory' or 'processes'."""

    def __init__(self, what: str, used: int, limit: int) -> None:
        self.what, self.used, self.limit = what, used, limit
        super().__init__(f"{used} of at most {limit} ({what})")


class WorkerDied(WorkerFailure):
    """Its process ended by itself, or somebody else ended it.

    ``signal`` or ``code`` says how; both are None if the supervisor was killed too and nothing is known.
    """

    def __init__(self, signal: int | None, code: int | None) -> None:
        self.signal, self.code = signal, code
        how = self.signal_name or ("unknown cause" if code is None else f"exit code {code}")
        super().__init__(f"the worker ended: {how}")

    @property
    def killed(self) -> bool:
        """True if somebody outside ended it, so that its end says nothing about the program."""
        return self.signal == signal.SIGKILL or (self.signal is None and self.code is None)

    @property
    def signal_name(self) -> str:
        """E.g. SIGSEGV; '' if no signal ended it."""
        if self.signal is None:
            return ""
        try:
            return signal.Signals(self.signal).name
        except ValueError:
            return f"signal {self.signal}"


class ProgramRaised(WorkerFailure):
    """The program under test raised, and the worker is alive."""

    def __init__(self, failed: messages.Failed) -> None:
        self.failed = failed
        super().__init__(f"{failed.type}: {failed.message}")


@dataclass(frozen=True, slots=True)
class Exchange:
    """A reply, and the seconds from the first byte of the request to the last of the reply by the judge's clock."""

    reply: messages.Reply
    seconds: float


@dataclass(frozen=True, slots=True)
class WatchedExchange(Exchange):
    """With the delays for which the machine is to blame, read from outside, so that the program cannot tell lies."""

    waited: float
    """Longest that a thread of the worker stood ready without a processor, in seconds."""
    delayed: float
    """The same for the judge's thread and the worker's first thread together: the two that talk."""
    stood: float
    """The same for the judge's thread and all of the worker's together: by no more have others lengthened it."""


class WorkerHandle:
    """One worker as its judge sees it. Not thread-safe: one thread talks to a worker at a time."""

    def __init__(self, sock: socket.socket, pid: int, pidfd: int, exit_pipe: int, policy: IsolationPolicy, log: Path):
        self.pid = pid
        """Of the supervisor."""
        self.isolation: dict[str, str] = {}
        self._sock = sock
        self._pidfd = pidfd
        self._exit_pipe = exit_pipe
        self._policy = policy
        self._log = log
        self._reader = wire.ReplyReader()
        self._closed = False
        self._poll = select.poll()
        self._poll.register(sock, select.POLLIN)
        self._poll.register(exit_pipe, select.POLLIN)

    def greet(self, timeout: float) -> None:
        """Wait for the worker's first words."""
        hello = messages.Hello.model_validate(self._receive("hello", timeout, timeout))
        self.isolation = hello.isolation

    def ask(self, message: Any, timeout: float, descriptors: Sequence[int] = ()) -> Exchange:
        """Send a request and wait for its reply.

        Raises ProgramRaised if the program under test raised, WireViolation if the answer is none, and another
        WorkerFailure if the worker is gone; after anything but ProgramRaised the worker is dead.
        """
        request = wire.Request.of(message)
        frame = wire.encode_request(request)
        start = time.perf_counter_ns()
        try:
            self._send(frame, descriptors, timeout)
            body = self._receive(request.token, timeout - (time.perf_counter_ns() - start) * 1e-9, timeout)
            seconds = (time.perf_counter_ns() - start) * 1e-9
            if "failed" in body:
                raise ProgramRaised(messages.Failed.model_validate(body["failed"]))
            return Exchange(messages.REPLIES[type(message)].model_validate(body), seconds)
        except ValidationError as error:
            self.kill()
            raise WireViolation(
                f"a reply to {type(message).__name__} is malformed: {error.errors()[0]['msg']}"
            ) from None
        except WireViolation:
            self.kill()
            raise

    def _send(self, frame: bytes, descriptors: Sequence[int], timeout: float) -> None:
        self._sock.settimeout(timeout)
        try:
            sent = socket.send_fds(self._sock, [frame], list(descriptors)) if descriptors else 0
            self._sock.sendall(frame[sent:])
        except TimeoutError:
            self.kill()
            raise WorkerTimeout(timeout) from None
        except OSError:
            raise self._death() from None

    def _receive(self, token: str, remaining: float, timeout: float) -> dict[str, Any]:
        deadline = time.monotonic() + remaining
        while True:
            left = deadline - time.monotonic()
            ready = {descriptor for descriptor, _ in self._poll.poll(max(0.0, min(left, _TICK_SECONDS)) * 1000)}
            if self._sock.fileno() in ready:
                try:
                    data = self._sock.recv(1 << 16, socket.MSG_DONTWAIT)
                except BlockingIOError:
                    continue
                except OSError:
                    data = b""
                if not data:
                    raise self._death()
                body = self._reader.feed(data, token)
                if body is not None:
                    return body
            elif ready:
                raise self._death()
            elif left <= 0:
                self.kill()
                raise WorkerTimeout(timeout)
            else:
                self._check_limits()

    def _check_limits(self) -> None:
        processes = list(islice(_descendants(self.pid), PROCESS_LIMIT + 1))
        used = sum(map(_private_bytes, processes))
        limit = self._policy.memory_bytes
        if limit is not None and used > limit:
            self.kill()
            raise WorkerOverLimit("memory", used, limit)
        if len(processes) > PROCESS_LIMIT:
            self.kill()
            raise WorkerOverLimit("processes", len(processes), PROCESS_LIMIT)

    def _death(self) -> WorkerDied:
        """How the worker ended, by its supervisor's word."""
        poll = select.poll()
        poll.register(self._exit_pipe, select.POLLIN)
        record: dict[str, Any] = {}
        if poll.poll(_FAREWELL_SECONDS * 1000):
            with contextlib.suppress(ValueError, OSError):
                record = json.loads(os.read(self._exit_pipe, 4096) or b"{}")
        self.kill()
        return WorkerDied(record.get("signal"), record.get("code"))

    @property
    def alive(self) -> bool:
        """True as long as it has neither ended nor been ended."""
        if self._closed:
            return False
        poll = select.poll()
        poll.register(self._pidfd, select.POLLIN)
        return not poll.poll(0)

    def ask_watched(self, message: Any, timeout: float) -> WatchedExchange:
        """``ask``, and what the kernel says of the threads on both sides meanwhile. Raises what ``ask`` raises."""
        before = self._waits()
        judge_before = waited(_OWN_THREAD)  # Last before and first after: what these readings cost is not the exchange.
        exchange = self.ask(message, timeout)
        judge = waited(_OWN_THREAD) - judge_before
        waits = {task: now - before.get(task, 0) for task, now in self._waits().items()}
        main = waits.get(str(next(_descendants(self.pid), None)), 0)
        return WatchedExchange(
            exchange.reply,
            exchange.seconds,
            waited=max(waits.values(), default=0) * 1e-9,
            delayed=(judge + main) * 1e-9,
            stood=(judge + sum(waits.values())) * 1e-9,
        )

    @property
    def worker_pid(self) -> int | None:
        """The worker proper, as this process sees it; None once it has ended."""
        return None if self._closed else next(_descendants(self.pid), None)

    def pause(self) -> None:
        """Stop every process of the worker, so that it can neither work nor disturb others until ``resume``."""
        self._signal_all(signal.SIGSTOP)

    def resume(self) -> None:
        """Let a paused worker go on; nothing happens to one that is not paused."""
        self._signal_all(signal.SIGCONT)

    def _signal_all(self, number: signal.Signals) -> None:
        # From the top down: a process that has been stopped makes no further children.
        for pid in _descendants(self.pid) if not self._closed else ():
            with contextlib.suppress(OSError):
                os.kill(pid, number)

    def _waits(self) -> dict[str, int]:
        """Nanoseconds that each thread of the worker has stood ready without a processor so far."""
        found: dict[str, int] = {}
        for pid in _descendants(self.pid):
            with contextlib.suppress(OSError):
                for task in Path(f"/proc/{pid}/task").iterdir():
                    found[task.name] = waited(task)
        return found

    def output(self) -> str:
        """What the program printed, up to a limit."""
        try:
            return self._log.read_text(errors="replace")
        except OSError:
            return ""

    def kill(self) -> None:
        """End the worker and everything it started."""
        if self._closed:
            return
        self._closed = True
        with contextlib.suppress(ProcessLookupError):
            own_processes = self.isolation.get("pid") == "own"
            signal.pidfd_send_signal(self._pidfd, signal.SIGKILL if own_processes else signal.SIGTERM)
            if not own_processes:
                poll = select.poll()
                poll.register(self._pidfd, select.POLLIN)
                if not poll.poll(_KILL_SECONDS * 1000):
                    signal.pidfd_send_signal(self._pidfd, signal.SIGKILL)
        self._sock.close()
        os.close(self._pidfd)
        os.close(self._exit_pipe)


def _descendants(pid: int) -> Iterator[int]:
    """Children of a process, theirs, and so on, however deep a program nests them; its first child comes first."""
    found = deque([pid])
    while found:
        with contextlib.suppress(OSError):
            for task in Path(f"/proc/{found.popleft()}/task").iterdir():
                children = [int(child) for child in (task / "children").read_text().split()]
                yield from children
                found.extend(children)


def waited(task: Path) -> int:
    """Nanoseconds for which a thread has stood ready without a processor; 0 where the kernel does not count them."""
    try:
        return int((task / "schedstat").read_text().split()[1])
    except (OSError, IndexError, ValueError):
        return 0


def _private_bytes(pid: int) -> int:
    """Resident memory of a process that no file and no arena backs."""
    try:
        _, resident, shared, *_ = Path(f"/proc/{pid}/statm").read_text().split()
    except (OSError, ValueError):
        return 0
    return (int(resident) - int(shared)) * os.sysconf("SC_PAGE_SIZE")
