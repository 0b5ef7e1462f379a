"""Control groups that limit how many tasks (processes and threads) a worker has at a time, itself included.

The resource limit for processes does not hold for root, and for others it counts all that the user runs; a group holds
for everybody and counts one worker. The zygote makes the groups, because a worker sees control groups read-only.
"""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Iterator
from pathlib import Path

TASK_LIMIT = 4096
"""A compiler pool with its threads on a large machine needs hundreds; a fork bomb has as many at once."""
REPORT = f"at most {TASK_LIMIT} tasks by control group"
_MOUNT = Path("/sys/fs/cgroup")
_PREFIX, _LIMIT = "kernelevolve-", "pids.max"
_PATIENCE_SECONDS = 1.0


class TaskGroups:
    """The groups of one zygote. Not thread-safe."""

    def __init__(self) -> None:
        self._places = list(_places())
        self._groups: list[Path] = []
        self._count = 0
        for place in self._places:
            _remove_orphans(place)

    def make(self) -> Path | None:
        """A new group with the limit, still empty; None where this process may not make one."""
        self._count += 1
        for place in self._places:
            group = place / f"{_PREFIX}{os.getpid()}-{self._count}"
            try:
                group.mkdir()
            except OSError:
                continue
            try:
                # Without the controller there is no such file, and none can be made.
                (group / _LIMIT).write_text(str(TASK_LIMIT))
            except OSError:
                group.rmdir()
                continue
            self._groups.append(group)
            return group
        return None

    def sweep(self) -> None:
        """Remove the groups in which nothing runs any more."""
        self._groups = [group for group in self._groups if not _removed(group)]

    def close(self) -> None:
        """Remove all groups as soon as what runs in them has ended, which must be under way."""
        deadline = time.monotonic() + _PATIENCE_SECONDS
        self.sweep()
        while self._groups and time.monotonic() < deadline:
            time.sleep(0.01)
            self.sweep()


def join(group: Path) -> int | None:
    """Put this process and its future children into a group; None if it may not.

    Returns a descriptor of the limit: once "0" is written to it nothing in the group can fork any more.
    """
    try:
        limit = os.open(group / _LIMIT, os.O_WRONLY)
    except OSError:
        return None
    try:
        (group / "cgroup.procs").write_text("0")
    except OSError:
        os.close(limit)
        return None
    return limit


def _places() -> Iterator[Path]:
    """Where groups may be made: in our own; in version 2, where one with processes has none below it, beside it."""
    with contextlib.suppress(OSError):
        for line in Path("/proc/self/cgroup").read_text().splitlines():
            _, controllers, path = line.split(":", 2)
            if "pids" in controllers.split(","):
                yield _MOUNT / "pids" / path.lstrip("/")
            elif not controllers:
                own = _MOUNT / path.lstrip("/")
                yield own if own == _MOUNT else own.parent


def _remove_orphans(place: Path) -> None:
    """What a zygote left that was killed."""
    for group in place.glob(f"{_PREFIX}*"):
        zygote = group.name.removeprefix(_PREFIX).partition("-")[0]
        if not Path("/proc", zygote).exists():
            _removed(group)


def _removed(group: Path) -> bool:
    try:
        group.rmdir()
    except FileNotFoundError:
        return True
    except OSError:
        return False  # Something still runs in it.
    return True
