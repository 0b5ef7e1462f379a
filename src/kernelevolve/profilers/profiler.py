"""Profiler: one tool, what it can be used on, and how it is put to a candidate."""

from __future__ import annotations

from collections.abc import Callable, Collection
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any, Protocol

from kernelevolve.languages import Availability
from kernelevolve.profilers.diagnosis import Evidence
from kernelevolve.workers.isolation import Capability

INSTANCE = BINDING = "profiled"
"""Names under which a worker holds the constructed candidate and its inputs."""
WEIGHTS = "weights"
"""Binding of a worker that holds no candidate: ``(init_inputs, weights, names of parameters)``."""

Probe = Callable[..., dict[str, Any]]


class ProfilerFailed(Exception):
    """A profiler could not say anything of this candidate; the message says why, in a few words."""


@dataclass(frozen=True, slots=True)
class Findings:
    """What one profiler says."""

    evidence: tuple[Evidence, ...]
    lacking: str = ""
    """What it could not see, and why, in a few words; '' if it saw all that it can."""


class Running(Protocol):
    """A worker with the judge's inputs in place. Everything may raise ``WorkerFailure`` or ``WireViolation``."""

    @property
    def pid(self) -> int:
        """The worker's process, as this process sees it."""
        ...

    def inspect(self, probe: Probe, *, timeout: float, **arguments: Any) -> dict[str, Any]:
        """Run a probe in the worker: a function of a module of ours, called with the site and the arguments.

        What comes back is JSON from an untrusted process: validate it.
        """
        ...


class Subject(Protocol):
    """The candidate that is profiled, on one workload."""

    source: str
    """Its text, with the configuration written into it."""
    training: bool
    """True if the problem is judged in training mode."""
    call_seconds: float
    """About how long a call takes, to choose how many are profiled."""
    call_limit: float
    """Deadline of one call, in seconds."""

    def start(
        self, *, before: Probe | None = None, load: bool = True, capabilities: Collection[Capability] = ()
    ) -> AbstractContextManager[Running]:
        """A fresh worker, ended with the context. The candidate is in it, called once, unless ``load`` is False.

        ``before`` is a probe that runs before the candidate is imported, and after the inputs are bound. Without
        ``load`` the worker also holds the weights. Raises what building and calling the candidate raises.
        """
        ...


class Profiler(Protocol):
    """One tool. The module ``profilers/<name>.py`` holds ``PROFILER``, an instance of this."""

    name: str
    device_types: frozenset[str]
    """torch device types on which it says something."""
    languages: frozenset[str] | None
    """Names of the languages whose candidates it can look into; None for all."""

    def availability(self) -> Availability:
        """Whether this machine has the tool; quick."""
        ...

    def profile(self, subject: Subject) -> Findings:
        """Put the tool to the candidate.

        Raises ProfilerFailed if it cannot say anything; whatever the candidate's worker raises passes through.
        """
        ...
