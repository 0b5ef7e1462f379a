"""Slots: a fixed number of pieces of work at once, and one queue on which the engine hears of them."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Done:
    """A piece of work returned."""

    key: int
    result: Any


@dataclass(frozen=True, slots=True)
class Raised:
    """A piece of work ended with an exception."""

    key: int
    error: Exception


class Slots:
    """Runs work on threads of its own and brings every message back to one thread.

    The threads are daemons, one per piece of work: an evaluation takes a second or more, so starting one costs
    nothing, and a judge that hangs cannot keep the interpreter from exiting.
    """

    def __init__(self, count: int) -> None:
        self.count = count
        self._messages: queue.SimpleQueue[Any] = queue.SimpleQueue()
        self._running: set[int] = set()
        self._started = 0

    @property
    def free(self) -> int:
        """How many pieces of work could be started."""
        return self.count - len(self._running)

    def start(self, work: Callable[[], Any]) -> int:
        """Begin; ``Done`` or ``Raised`` with the returned key comes out of ``wait`` when it ends."""
        self._started += 1
        key = self._started
        self._running.add(key)
        threading.Thread(target=self._run, args=(key, work), name=f"kernelevolve-slot-{key}", daemon=True).start()
        return key

    def post(self, message: Any) -> None:
        """Send a message to the waiting thread; called by the work."""
        self._messages.put(message)

    def wait(self, timeout: float) -> Any | None:
        """The next message; None if none came within ``timeout`` seconds."""
        try:
            message = self._messages.get(timeout=timeout)
        except queue.Empty:
            return None
        if isinstance(message, (Done, Raised)):
            self._running.discard(message.key)
        return message

    def _run(self, key: int, work: Callable[[], Any]) -> None:
        try:
            self.post(Done(key, work()))
        except Exception as error:
            self.post(Raised(key, error))
