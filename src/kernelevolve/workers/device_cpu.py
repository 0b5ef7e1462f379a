"""CPU: sealed memory files mapped by both sides, one clock."""

from __future__ import annotations

import ctypes
import fcntl
import gc
import mmap
import os
import secrets
from collections.abc import Callable, Sequence
from time import perf_counter_ns
from typing import Any

import torch

from kernelevolve.workers.device import Timing
from kernelevolve.workers.messages import ArenaHandle, ClockName

_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD = -1, -3


def make_memory_file(size: int) -> int:
    """An anonymous file of fixed size. Unsealed, a worker could shrink it and the judge would die on the next read."""
    descriptor = os.memfd_create("arena", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
    os.ftruncate(descriptor, size)
    fcntl.fcntl(descriptor, fcntl.F_ADD_SEALS, fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW | fcntl.F_SEAL_SEAL)
    return descriptor


def map_memory_file(descriptor: int, size: int) -> torch.Tensor:
    """The file as a uint8 tensor; it stays mapped as long as the tensor lives.

    Every page is mapped at once: a program must not pay for that in its first call on new inputs.
    """
    mapped = mmap.mmap(descriptor, size, mmap.MAP_SHARED | mmap.MAP_POPULATE)
    return torch.frombuffer(mapped, dtype=torch.uint8)


class MemoryFileArena:
    """A block in a sealed memory file; the worker gets the descriptor."""

    def __init__(self, size: int) -> None:
        self._descriptor = make_memory_file(size)
        self.memory = map_memory_file(self._descriptor, size)
        self.memory.fill_(0xFF)
        self.handle = ArenaHandle(secrets.token_hex(6), size, "memfd")

    @property
    def descriptors(self) -> tuple[int, ...]:
        return (self._descriptor,)

    def settle(self) -> None:
        """Nothing to wait for."""

    def close(self) -> None:
        """Close the file; the mapping goes with the last tensor that uses it."""
        os.close(self._descriptor)
        self.memory = torch.empty(0, dtype=torch.uint8)


class CpuArenaMaker:
    """Arenas in memory files."""

    methods: dict[ClockName, str]

    def __init__(self) -> None:
        self.torch_device = torch.device("cpu")
        self.methods = {"wall": "monotonic clock, last-level cache flushed"}

    def make(self, size: int) -> MemoryFileArena:
        return MemoryFileArena(max(1, size))

    def fall_back(self) -> bool:
        return False


class CpuWorkerDevice:
    """Runs programs on the host."""

    def __init__(self, threads: int, cache_bytes: int) -> None:
        self.torch_device = torch.device("cpu")
        torch.set_num_threads(threads)
        _settle_allocator()
        self._evictor = torch.zeros(max(1, 2 * cache_bytes), dtype=torch.uint8)

    def map(self, handle: ArenaHandle, descriptors: list[int]) -> torch.Tensor:
        (descriptor,) = descriptors
        memory = map_memory_file(descriptor, handle.size)
        os.close(descriptor)
        return memory

    def unmap(self, name: str) -> None:
        """Nothing but the tensor itself holds the mapping."""

    def take_over(self, name: str) -> None:
        """Both sides see the same memory."""

    def hand_back(self, name: str) -> None:
        """Both sides see the same memory."""

    def flush(self) -> None:
        self._evictor.add_(1)

    def timed(self, calls: Sequence[Callable[[], Any]], clock: ClockName, head_start: float | None) -> Timing:
        results = []
        gc.disable()
        try:
            start = perf_counter_ns()
            for call in calls:
                results.append(call())
            wall = perf_counter_ns() - start
        finally:
            gc.enable()
        return Timing(wall * 1e-9, None, results)


def _settle_allocator() -> None:
    """Fix what glibc's malloc otherwise adapts to the history of a process.

    Whether a freed block goes back to the kernel, to be faulted in page by page by the next call, depends on what the
    process freed before; two workers with the same program then differ by several times. With these settings blocks up
    to 32 MiB are always reused, as in a process that has run for a while, and larger ones never, for every program.
    """
    libc = ctypes.CDLL(None)
    libc.mallopt(_M_MMAP_THRESHOLD, 32 << 20)
    libc.mallopt(_M_TRIM_THRESHOLD, 1 << 30)
