"""Ceilings are measured once per device and kept in the user's cache."""

from __future__ import annotations

import contextlib
import os
import tempfile
import time
from collections.abc import Callable, Mapping
from pathlib import Path

from pydantic import BaseModel, ConfigDict, ValidationError

from kernelevolve.hashing import digest_json
from kernelevolve.languages.build_cache import user_cache
from kernelevolve.targets.target import Ceilings

_RETRY_SECONDS = 600.0
_known: dict[Path, Ceilings] = {}


class _Entry(BaseModel):
    """What the cache holds of one device."""

    model_config = ConfigDict(frozen=True)

    ceilings: Ceilings
    disturbed: bool
    """Other work ran on the device in every measurement so far."""


def cached_ceilings(
    key: Mapping[str, str], measure: Callable[[], Ceilings], *, disturbed: Callable[[], bool] = lambda: False
) -> Ceilings:
    """The ceilings under ``key``: everything that they depend on (device, driver, versions, threads, method).

    They are measured if the cache has none or holds something else. If ``disturbed()`` says afterwards that other work
    ran beside the measurement, a process that comes ten minutes later measures again, and the better of each pair of
    rates is kept: a disturbance can only lower them. A cache that cannot be written is done without.
    """
    path = user_cache() / "ceilings" / f"{digest_json(dict(key))[:32]}.json"
    if path in _known:
        return _known[path]
    entry = _read(path)
    if entry is None or (entry.disturbed and time.time() - path.stat().st_mtime > _RETRY_SECONDS):
        fresh = measure()
        best = fresh if entry is None else _better(entry.ceilings, fresh)
        entry = _Entry(ceilings=best, disturbed=disturbed())
        with contextlib.suppress(OSError):
            _write(path, entry)
    _known[path] = entry.ceilings.model_copy(update={"disturbed": entry.disturbed})
    return _known[path]


def _better(a: Ceilings, b: Ceilings) -> Ceilings:
    return b.model_copy(
        update={
            "read_bandwidth": max(a.read_bandwidth, b.read_bandwidth),
            "copy_bandwidth": max(a.copy_bandwidth, b.copy_bandwidth),
            "flops": {name: max(rate, a.flops.get(name, 0.0)) for name, rate in b.flops.items()},
            "launch_seconds": min(a.launch_seconds, b.launch_seconds),
        }
    )


def _read(path: Path) -> _Entry | None:
    try:
        return _Entry.model_validate_json(path.read_text())
    except (OSError, UnicodeDecodeError, ValidationError):
        return None


def _write(path: Path, entry: _Entry) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    descriptor, temporary = tempfile.mkstemp(dir=path.parent)
    with os.fdopen(descriptor, "w") as file:
        file.write(entry.model_dump_json(indent=1))
    Path(temporary).replace(path)
