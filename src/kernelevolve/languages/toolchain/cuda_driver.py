"""The CUDA driver through ctypes: load a cubin, find a kernel, launch it on a stream that torch owns.

Functions as in the CUDA driver API, https://docs.nvidia.com/cuda/cuda-driver-api/.
"""

from __future__ import annotations

import ctypes
import threading
from collections.abc import Sequence
from functools import lru_cache
from typing import Any, TypeAlias

from kernelevolve.errors import MissingTarget

Handle: TypeAlias = ctypes.c_void_p
_INVALID_CONTEXT = 201
_MAX_DYNAMIC_SHARED_SIZE_BYTES = 8


class DriverError(RuntimeError):
    """The driver refused a call; ``code`` is its CUresult."""

    def __init__(self, code: int, doing: str) -> None:
        self.code = code
        super().__init__(f"{doing}: {_explain(code)}")


@lru_cache(maxsize=1)
def library() -> ctypes.CDLL:
    """libcuda. Raises MissingTarget if there is no NVIDIA driver."""
    try:
        driver = ctypes.CDLL("libcuda.so.1")
        driver.cuLaunchKernel.argtypes = [Handle, *[ctypes.c_uint] * 7, Handle, Handle, Handle]
    except OSError:
        raise MissingTarget(
            "there is no NVIDIA driver (libcuda.so.1)", fix="run where nvidia-smi works, or use --target cpu"
        ) from None
    code = driver.cuInit(0)
    if code != 0:
        raise MissingTarget(f"the NVIDIA driver does not start: CUDA error {code}", fix="see nvidia-smi")
    return driver


class Cells(threading.local):
    """Memory for the arguments of one kernel, made once in each thread, and the array of its addresses."""

    def __init__(self, types: Sequence[Any]) -> None:
        self._cells = [kind() for kind in types]
        self.addresses = (Handle * len(self._cells))(*map(ctypes.addressof, self._cells))

    def fill(self, values: Sequence[Any]) -> None:
        """Put the arguments of the next launch into their places."""
        for cell, value in zip(self._cells, values, strict=True):
            cell.value = value


def ensure_context(device: int) -> None:
    """Make the primary context of a device, which is torch's, current on this thread if no context is."""
    driver = library()
    context = Handle()
    _check(driver.cuCtxGetCurrent(ctypes.byref(context)), "asking for the context")
    if not context:
        _check(driver.cuDevicePrimaryCtxRetain(ctypes.byref(context), device), "opening the device")
        _check(driver.cuCtxSetCurrent(context), "entering the context")


def load_module(cubin: bytes, device: int) -> Handle:
    """The module of a cubin on a device. It stays loaded as long as the process lives."""
    ensure_context(device)
    module = Handle()
    _check(library().cuModuleLoadData(ctypes.byref(module), cubin), "loading the cubin")
    return module


def get_function(module: Handle, name: str) -> Handle:
    """A kernel of a module by its C name."""
    function = Handle()
    _check(library().cuModuleGetFunction(ctypes.byref(function), module, name.encode()), f"looking for kernel {name}")
    return function


def allow_shared_memory(function: Handle, size: int) -> None:
    """Let a kernel ask for up to ``size`` bytes of dynamic shared memory (more than 48 KiB must be allowed first)."""
    _check(
        library().cuFuncSetAttribute(function, _MAX_DYNAMIC_SHARED_SIZE_BYTES, size),
        f"asking for {size} bytes of dynamic shared memory",
    )


def launch(
    function: Handle,
    grid: Sequence[int],
    block: Sequence[int],
    cells: Cells,
    *,
    shared: int,
    stream: int,
    device: int,
) -> None:
    """Launch a kernel on the arguments in ``cells``, which the driver copies before this returns."""
    arguments = (function, *grid, *block, shared, stream, cells.addresses, None)
    code = library().cuLaunchKernel(*arguments)
    if code == _INVALID_CONTEXT:  # a thread on which torch has not worked yet
        ensure_context(device)
        code = library().cuLaunchKernel(*arguments)
    if code != 0:
        raise DriverError(
            code, f"launching {tuple(grid)} blocks of {tuple(block)} threads with {shared} bytes of shared memory"
        )


def _check(code: int, doing: str) -> None:
    if code != 0:
        raise DriverError(code, doing)


def _explain(code: int) -> str:
    name, text = ctypes.c_char_p(), ctypes.c_char_p()
    library().cuGetErrorName(code, ctypes.byref(name))
    library().cuGetErrorString(code, ctypes.byref(text))
    return f"{(name.value or b'CUDA error').decode()} ({(text.value or str(code).encode()).decode()})"
