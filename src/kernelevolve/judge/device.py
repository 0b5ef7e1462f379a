"""Who may use the device: many may build and run side by side, but whoever takes time is alone."""

from __future__ import annotations

import fcntl
import os
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path


class DeviceLock:
    """Readers (work that disturbs timing) and one writer (timing) on one device.

    A waiting timing holds back new work, so that it is not starved: in this process by a count, in others by a second
    lock file, a gate through which everybody passes and in which a timing stays until it is done.

    Judges in several processes never time at once. With ``apart`` they keep off each other's timing with their work
    too, as they must on a device whose clocks do not show that it was shared.
    """

    def __init__(self, device: str, *, apart: bool) -> None:
        self._apart = apart
        self._condition = threading.Condition()
        self._working = 0
        self._waiting = 0
        self._timing = False
        name = "".join(c if c.isalnum() else "-" for c in device)
        place = Path(tempfile.gettempdir())
        self._gate = place / f"kernelevolve-{os.getuid()}-{name}.gate"
        self._device = place / f"kernelevolve-{os.getuid()}-{name}.lock"

    @contextmanager
    def working(self) -> Iterator[None]:
        """Hold while building or running anything that shares the device's resources with a timed call."""
        with self._condition:
            self._condition.wait_for(lambda: not self._timing and not self._waiting)
            self._working += 1
        try:
            with self._beside_others() if self._apart else nullcontext():
                yield
        finally:
            with self._condition:
                self._working -= 1
                self._condition.notify_all()

    @contextmanager
    def _beside_others(self) -> Iterator[None]:
        with self._gate.open("w") as gate, self._device.open("w") as device:
            fcntl.flock(gate, fcntl.LOCK_SH)
            fcntl.flock(device, fcntl.LOCK_SH)
            fcntl.flock(gate, fcntl.LOCK_UN)
            yield

    @contextmanager
    def timing(self) -> Iterator[None]:
        """Hold while timing; waits until nobody works."""
        with self._condition:
            self._waiting += 1
            self._condition.wait_for(lambda: not self._timing and not self._working)
            self._waiting -= 1
            self._timing = True
        try:
            with self._gate.open("w") as gate, self._device.open("w") as device:
                fcntl.flock(gate, fcntl.LOCK_EX)
                fcntl.flock(device, fcntl.LOCK_EX)
                yield
        finally:
            with self._condition:
                self._timing = False
                self._condition.notify_all()
