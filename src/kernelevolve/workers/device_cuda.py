"""NVIDIA GPUs: device memory shared through the driver's IPC handles, events and wall clock.

Arenas are allocated through the driver and not through torch, because a handle opens the whole allocation that it
belongs to: one of torch's cached blocks would show a worker whatever else of the judge lies in that block. Allocations
are whole multiples of 2 MiB, below which the driver itself puts several into one.
"""

from __future__ import annotations

import ctypes
import gc
import os
import secrets
from collections.abc import Callable, Sequence
from functools import cache
from time import perf_counter_ns
from typing import Any

import torch

from kernelevolve.errors import MissingTarget
from kernelevolve.workers.device import Arena, Timing
from kernelevolve.workers.device_cpu import MemoryFileArena, map_memory_file
from kernelevolve.workers.messages import ArenaHandle, ClockName

_GRANULE = 2 << 20
_LAZY_PEER_ACCESS = 1
_HANDLE_BYTES = 64


class _IpcHandle(ctypes.Structure):
    _fields_ = (("reserved", ctypes.c_char * _HANDLE_BYTES),)


@cache
def _driver() -> ctypes.CDLL:
    try:
        driver = ctypes.CDLL("libcuda.so.1")
    except OSError:
        raise MissingTarget("there is no NVIDIA driver", fix="install it, or use --target cpu") from None
    driver.cuIpcOpenMemHandle_v2.argtypes = (ctypes.POINTER(ctypes.c_uint64), _IpcHandle, ctypes.c_uint)
    driver.cuMemAlloc_v2.argtypes = (ctypes.POINTER(ctypes.c_uint64), ctypes.c_size_t)
    driver.cuMemFree_v2.argtypes = (ctypes.c_uint64,)
    driver.cuIpcCloseMemHandle.argtypes = (ctypes.c_uint64,)
    driver.cuIpcGetMemHandle.argtypes = (ctypes.POINTER(_IpcHandle), ctypes.c_uint64)
    return driver


def _call(name: str, *args: Any) -> None:
    """A driver function in torch's context, which is made current in this thread first."""
    torch.cuda.init()  # type: ignore[no-untyped-call]
    driver = _driver()
    device, context = ctypes.c_int(), ctypes.c_void_p()
    for step, result in (
        ("cuDeviceGet", driver.cuDeviceGet(ctypes.byref(device), torch.cuda.current_device())),
        ("cuDevicePrimaryCtxRetain", driver.cuDevicePrimaryCtxRetain(ctypes.byref(context), device)),
        ("cuCtxSetCurrent", driver.cuCtxSetCurrent(context)),
        (name, getattr(driver, name)(*args)),
    ):
        if result != 0:
            raise RuntimeError(f"{step} failed with CUDA error {result}")


_CLOCK_HERTZ = 2e9
"""About the fastest clock of the device: a slower one only makes a head start longer."""
_HEAD_START = 1.5
"""Part of the host's last launching time for which the device is kept busy before the next."""
_SHORTEST_HEAD_START, _LONGEST_HEAD_START = 200_000, 4_000_000
"""Clock cycles: 0.1 and 2 milliseconds."""


class _Block:
    """Device memory at an address, in the form that torch takes it without a copy."""

    def __init__(self, address: int, size: int) -> None:
        self.__cuda_array_interface__ = {
            "shape": (size,),
            "typestr": "|u1",
            "data": (address, False),
            "strides": None,
            "version": 3,
        }


def _as_tensor(address: int, size: int) -> torch.Tensor:
    return torch.as_tensor(_Block(address, size), device="cuda")


class CudaArena:
    """Device memory of the judge; the worker opens the handle."""

    descriptors: tuple[int, ...] = ()

    def __init__(self, size: int) -> None:
        address = ctypes.c_uint64()
        _call("cuMemAlloc_v2", ctypes.byref(address), -(-max(1, size) // _GRANULE) * _GRANULE)
        self._address = address.value
        handle = _IpcHandle()
        _call("cuIpcGetMemHandle", ctypes.byref(handle), self._address)
        self.memory = _as_tensor(self._address, size)
        self.memory.fill_(0xFF)
        self.settle()
        # The structure's bytes, not its attribute, which would end at the first zero.
        self.handle = ArenaHandle(secrets.token_hex(6), size, "cuda-ipc", bytes(handle))

    def settle(self) -> None:
        torch.cuda.synchronize()

    def close(self) -> None:
        self.memory = torch.empty(0, dtype=torch.uint8, device="cuda")
        _call("cuMemFree_v2", self._address)


class CudaArenaMaker:
    """Arenas in device memory; in host memory, with a copy on either side, where the driver refuses to share."""

    methods: dict[ClockName, str]

    def __init__(self) -> None:
        self.methods = {
            "device": "CUDA events, L2 cache flushed, launches queued behind the flush",
            "wall": "monotonic clock to the end of all work, L2 cache flushed",
        }
        self.torch_device = torch.device("cuda", torch.cuda.current_device())
        self._shared = True

    def make(self, size: int) -> Arena:
        return CudaArena(max(1, size)) if self._shared else MemoryFileArena(max(1, size))

    def fall_back(self) -> bool:
        was_shared, self._shared = self._shared, False
        return was_shared


class CudaWorkerDevice:
    """Runs programs on the GPU."""

    def __init__(self, threads: int, cache_bytes: int) -> None:
        torch.set_num_threads(threads)
        torch.cuda.init()  # type: ignore[no-untyped-call]
        self.torch_device = torch.device("cuda", torch.cuda.current_device())
        # One precision for all programs; a candidate that changes it is seen in its error.
        torch.backends.cuda.matmul.allow_tf32 = False
        torch.backends.cudnn.allow_tf32 = False
        self._evictor = torch.zeros(max(1, 2 * cache_bytes), dtype=torch.uint8, device=self.torch_device)
        self._head_start = _SHORTEST_HEAD_START
        self._addresses: dict[str, int] = {}
        self._staged: dict[str, tuple[torch.Tensor, torch.Tensor]] = {}

    def map(self, handle: ArenaHandle, descriptors: list[int]) -> torch.Tensor:
        if handle.kind == "memfd":
            (descriptor,) = descriptors
            host = map_memory_file(descriptor, handle.size)
            os.close(descriptor)
            memory = torch.empty(handle.size, dtype=torch.uint8, device=self.torch_device)
            self._staged[handle.name] = (host, memory)
            return memory
        address = ctypes.c_uint64()
        opened = _IpcHandle.from_buffer_copy(handle.ipc)
        _call("cuIpcOpenMemHandle_v2", ctypes.byref(address), opened, _LAZY_PEER_ACCESS)
        self._addresses[handle.name] = address.value
        return _as_tensor(address.value, handle.size)

    def unmap(self, name: str) -> None:
        self._staged.pop(name, None)
        address = self._addresses.pop(name, None)
        if address is not None:
            _call("cuIpcCloseMemHandle", address)

    def take_over(self, name: str) -> None:
        if name in self._staged:
            host, memory = self._staged[name]
            memory.copy_(host)

    def hand_back(self, name: str) -> None:
        if name in self._staged:
            host, memory = self._staged[name]
            host.copy_(memory)
        torch.cuda.synchronize()

    def flush(self) -> None:
        # Lines that a program has made to stay would survive the flush. Devices before Ampere have none, and say so.
        _driver().cuCtxResetPersistingL2Cache()
        self._evictor.zero_()
        torch.cuda.synchronize()

    def timed(self, calls: Sequence[Callable[[], Any]], clock: ClockName, head_start: float | None) -> Timing:
        first = torch.cuda.Event(enable_timing=True)  # type: ignore[no-untyped-call]
        last = torch.cuda.Event(enable_timing=True)  # type: ignore[no-untyped-call]
        results = []
        cycles = self._head_start if head_start is None else int(head_start * _CLOCK_HERTZ)
        gc.disable()
        try:
            torch.cuda.synchronize()
            start = perf_counter_ns()
            if clock == "device":
                # The device is busy with this while the host launches, so that launch latency stays outside. A kernel
                # of 30 microseconds takes the host longer than that to launch: the flush alone is not enough.
                self._evictor.zero_()
                torch.cuda._sleep(cycles)  # type: ignore[no-untyped-call]
            launching = perf_counter_ns()
            first.record()
            for call in calls:
                results.append(call())
            last.record()
            if head_start is None:
                cycles = int(_HEAD_START * (perf_counter_ns() - launching) * 1e-9 * _CLOCK_HERTZ)
                self._head_start = min(_LONGEST_HEAD_START, max(cycles, _SHORTEST_HEAD_START))
            torch.cuda.synchronize()  # All streams: work on a side stream counts.
            wall = perf_counter_ns() - start
        finally:
            gc.enable()
        return Timing(wall * 1e-9, first.elapsed_time(last) * 1e-3, results)
