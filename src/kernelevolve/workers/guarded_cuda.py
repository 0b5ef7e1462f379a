"""A worker on an NVIDIA GPU in which all of torch's memory is guarded memory."""

from __future__ import annotations

import ctypes
import os
import sys
from collections.abc import Callable, Sequence
from typing import Any, NoReturn

import torch

from kernelevolve.languages.toolchain.cuda_driver import DriverError
from kernelevolve.languages.toolchain.cuda_virtual_memory import ILLEGAL_ADDRESS, CudaVirtualMemory
from kernelevolve.workers.device import Timing
from kernelevolve.workers.device_cuda import CudaWorkerDevice
from kernelevolve.workers.guarded import ILLEGAL_ACCESS, NO_GUARD
from kernelevolve.workers.guarded_memory import GuardedMemory, VirtualMemory
from kernelevolve.workers.messages import ClockName

_ALLOCATE = ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_ssize_t, ctypes.c_int, ctypes.c_void_p)
_FREE = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_ssize_t, ctypes.c_int, ctypes.c_void_p)


class GuardedAllocator:
    """Guarded memory as torch's allocator for all devices of this process.

    In Python and not in C, so that it needs no compiler and can be tried without a GPU; it is called rarely enough.
    """

    def __init__(self, driver: Callable[[int], VirtualMemory] = CudaVirtualMemory) -> None:
        self._driver = driver
        self._memories: dict[int, GuardedMemory] = {}
        # Torch keeps the addresses of these; they must live as long as the process.
        self.allocate = _ALLOCATE(self._allocate)
        self.free = _FREE(self._free)

    def install(self) -> None:
        """Make it torch's allocator, before torch has started CUDA. Raises RuntimeError where torch knows no such."""
        make = getattr(torch._C, "_cuda_customAllocator", None)
        if make is None:
            raise RuntimeError("this build of torch takes no allocator of our own")
        addresses = [ctypes.cast(function, ctypes.c_void_p).value for function in (self.allocate, self.free)]
        torch.cuda.memory.change_current_allocator(torch.cuda.memory._CUDAAllocator(make(*addresses)))

    def check(self) -> None:
        """Raises OutOfBoundsWrite if anything was written beside a tensor since the last check."""
        for memory in tuple(self._memories.values()):
            memory.check()

    def _allocate(self, size: int, device: int, stream: int | None) -> int:
        try:
            if device not in self._memories:
                self._memories[device] = GuardedMemory(self._driver(device))
            return self._memories[device].allocate(size, stream or 0)
        except BaseException as reason:
            _give_up(reason)

    def _free(self, address: int | None, size: int, device: int, stream: int | None) -> None:
        try:
            if address and device in self._memories:
                self._memories[device].free(address, stream or 0)
        except DriverError:
            pass  # After an illegal access every call fails; the next allocation or the end of the call tells.
        except BaseException as reason:
            _give_up(reason)


def _give_up(reason: BaseException) -> NoReturn:
    print(f"there is no guarded memory: {reason}", file=sys.stderr, flush=True)
    illegal = isinstance(reason, DriverError) and reason.code == ILLEGAL_ADDRESS
    os._exit(ILLEGAL_ACCESS if illegal else NO_GUARD)


class GuardedCudaWorkerDevice(CudaWorkerDevice):
    """Runs programs on the GPU in guarded memory."""

    def __init__(self, threads: int) -> None:
        self._allocator = GuardedAllocator()
        self._allocator.install()
        super().__init__(threads, cache_bytes=1)  # No time is taken, so no cache has to be flushed.

    def timed(self, calls: Sequence[Callable[[], Any]], clock: ClockName, head_start: float | None) -> Timing:
        timing = super().timed(calls, clock, head_start)
        self._allocator.check()
        return timing
