"""What a C++ candidate builds and calls, written down in its worker while it runs.

``begin`` is sent before the candidate is imported; the other probes find the recording again, because one worker has
one candidate.
"""

from __future__ import annotations

import ctypes
import hashlib
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch

from kernelevolve.languages import cpp
from kernelevolve.languages.cpp import Built
from kernelevolve.languages.prototypes import Parameter, Prototype
from kernelevolve.profilers.profiler import BINDING, INSTANCE
from kernelevolve.workers.site import Site

NATIVE = "native::"
"""Before a function's name in a trace."""
_MEMORY_LIMIT = 1 << 29
"""Bytes of arguments that are kept for one call of the candidate."""


class CannotRecord(Exception):
    """A call has arguments that cannot be passed again from a file."""


@dataclass(frozen=True, slots=True)
class Argument:
    """A value, or a place in a block of memory that was written to a file."""

    parameter: Parameter
    value: float | int | None
    """None for a pointer, and then ``file`` is '' for the null pointer."""
    file: str = ""
    offset: int = 0


@dataclass(frozen=True, slots=True)
class NativeCall:
    """One call of a native function, with its arguments as they were before it."""

    build: int
    prototype: Prototype
    arguments: tuple[Argument, ...]


@dataclass(slots=True)
class Recording:
    """Builds in the order of their making; calls of one run of the candidate."""

    builds: list[Built] = field(default_factory=list)
    calls: list[NativeCall] = field(default_factory=list)
    place: Path | None = None
    """Where memory is written; None while calls are not kept."""
    _bytes: int = 0

    def watch(self, built: Built, prototype: Prototype, function: Callable[..., Any]) -> Callable[..., Any]:
        """The function, which now tells of its calls."""
        if built not in self.builds:
            self.builds.append(built)
        index, name = self.builds.index(built), NATIVE + prototype.name

        def call(*arguments: Any) -> Any:
            if self.place is not None:
                self._keep(self.place, index, prototype, arguments)
            with torch.profiler.record_function(name):
                return function(*arguments)

        return call

    def record(self, site: Site) -> None:
        """Call the candidate once and keep every native call that it makes. Raises CannotRecord."""
        self.place, self.calls, self._bytes = site.scratch, [], 0
        try:
            site.call(INSTANCE, BINDING)
        finally:
            self.place = None

    def _keep(self, place: Path, build: int, prototype: Prototype, values: tuple[Any, ...]) -> None:
        kept = []
        for parameter, value in zip(prototype.parameters, values, strict=True):
            if parameter.pointers > 1:
                raise CannotRecord(f"{prototype.name} takes addresses of addresses")
            if not parameter.pointers:
                kept.append(Argument(parameter, float(value) if parameter.type in ("f32", "f64") else int(value)))
            elif value is None:
                kept.append(Argument(parameter, None))
            else:
                kept.append(self._block(place, parameter, value))
        self.calls.append(NativeCall(build, prototype, tuple(kept)))

    def _block(self, place: Path, parameter: Parameter, tensor: torch.Tensor) -> Argument:
        storage = tensor.untyped_storage()
        self._bytes += storage.nbytes()
        if self._bytes > _MEMORY_LIMIT:
            raise CannotRecord(f"its arguments take more than {_MEMORY_LIMIT >> 20} MiB")
        content = ctypes.string_at(storage.data_ptr(), storage.nbytes())
        # Named by address and content: what shares memory in the candidate shares it in the replay.
        name = f"{storage.data_ptr():x}-{hashlib.sha256(content).hexdigest()[:16]}.bin"
        if not (place / name).exists():
            (place / name).write_bytes(content)
        return Argument(parameter, None, name, tensor.data_ptr() - storage.data_ptr())


_current = Recording()


def begin(site: Site) -> dict[str, Any]:
    """Probe: from now on builds are written down."""
    cpp.watch(_current.watch)
    return {}


def current() -> Recording:
    """The recording of this worker."""
    return _current


def repeat(site: Site, times: int) -> dict[str, Any]:
    """Probe: call the candidate several times, and nothing else."""
    for _ in range(times):
        site.call(INSTANCE, BINDING)
    return {}
