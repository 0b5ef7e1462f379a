"""Ctrl-C as a wish that the search ends, heard between two steps and not in the middle of one."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def stop_on_interrupt(stop: threading.Event) -> Iterator[None]:
    """While inside, the first SIGINT sets ``stop``; the second does what it did before, usually KeyboardInterrupt.

    Signals reach the main thread only; on any other this does nothing, and ``stop`` is set by whoever holds it.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    previous = signal.getsignal(signal.SIGINT)

    def on_signal(number: int, frame: object) -> None:
        stop.set()
        signal.signal(signal.SIGINT, previous)

    signal.signal(signal.SIGINT, on_signal)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, previous)
