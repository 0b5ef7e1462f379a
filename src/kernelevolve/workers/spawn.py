"""Spawn: what the zygote is asked for, when a worker is wanted."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from kernelevolve.workers.isolation import IsolationPolicy


@dataclass(frozen=True, slots=True)
class Spawn:
    """A request to the zygote: one worker."""

    policy: IsolationPolicy
    device_type: str
    threads: int
    cache_bytes: int
    """Last-level cache of the device; twice this much is touched before a call."""
    environment: dict[str, str]
    log: Path
    """File for the worker's output; lies outside its scratch directory."""
    guarded: bool = False
    """Every input and weight in an allocation of its own, which whoever watches accesses to memory can tell apart."""
