"""One process at a time may continue a run."""

from __future__ import annotations

import fcntl
from pathlib import Path
from typing import IO

from kernelevolve.errors import InvalidRequest


class RunLock:
    """A lock file held while a search runs; the kernel lets go of it when the process dies, however it dies."""

    def __init__(self, directory: Path) -> None:
        self.path = directory / ".lock"
        self._file: IO[str] | None = None

    def acquire(self) -> None:
        """Take the lock; InvalidRequest if another process (or another engine of this one) has it."""
        self.path.parent.mkdir(parents=True, exist_ok=True)
        file = self.path.open("w")
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            file.close()
            raise InvalidRequest(
                f"run {self.path.parent.name} is being searched by another process",
                fix="wait until it ends, or stop that process first",
            ) from None
        self._file = file

    def release(self) -> None:
        """Let go; nothing happens if it is not held."""
        if self._file is not None:
            self._file.close()
            self._file = None
