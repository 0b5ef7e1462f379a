"""Virtual memory of an NVIDIA GPU through the driver: addresses, and memory that is put behind them.

Functions, records and numbers as in the CUDA driver API, https://docs.nvidia.com/cuda/cuda-driver-api/.
"""

from __future__ import annotations

import ctypes
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from kernelevolve.languages.toolchain import cuda_driver
from kernelevolve.languages.toolchain.cuda_driver import DriverError

ILLEGAL_ADDRESS = 700
"""``DriverError.code`` of every call after a kernel has touched an address behind which there is nothing."""
_CAPTURE_IMPLICIT = 906
_PINNED, _ON_DEVICE, _READ_AND_WRITE, _MINIMUM, _RELAXED = 1, 1, 3, 0, 2


class _Location(ctypes.Structure):
    _fields_ = (("type", ctypes.c_int), ("id", ctypes.c_int))


class _AllocationFlags(ctypes.Structure):
    _fields_ = (
        ("compression", ctypes.c_ubyte),
        ("rdma", ctypes.c_ubyte),
        ("usage", ctypes.c_ushort),
        ("reserved", ctypes.c_ubyte * 4),
    )


class _AllocationProperties(ctypes.Structure):
    _fields_ = (
        ("type", ctypes.c_int),
        ("handle_types", ctypes.c_int),
        ("location", _Location),
        ("win32", ctypes.c_void_p),
        ("flags", _AllocationFlags),
    )


class _Access(ctypes.Structure):
    _fields_ = (("location", _Location), ("flags", ctypes.c_int))


_u64, _size, _pointer = ctypes.c_uint64, ctypes.c_size_t, ctypes.POINTER
_PROTOTYPES: dict[str, tuple[Any, ...]] = {
    "cuMemGetAllocationGranularity": (_pointer(_size), _pointer(_AllocationProperties), ctypes.c_int),
    "cuMemAddressReserve": (_pointer(_u64), _size, _size, _u64, _u64),
    "cuMemAddressFree": (_u64, _size),
    "cuMemCreate": (_pointer(_u64), _size, _pointer(_AllocationProperties), _u64),
    "cuMemRelease": (_u64,),
    "cuMemMap": (_u64, _size, _size, _u64, _u64),
    "cuMemUnmap": (_u64, _size),
    "cuMemSetAccess": (_u64, _size, _pointer(_Access), _size),
    "cuMemcpyHtoD_v2": (_u64, ctypes.c_char_p, _size),
    "cuMemcpyDtoH_v2": (ctypes.c_char_p, _u64, _size),
    "cuCtxSynchronize": (),
    "cuStreamIsCapturing": (ctypes.c_void_p, _pointer(ctypes.c_int)),
    "cuThreadExchangeStreamCaptureMode": (_pointer(ctypes.c_int),),
}


class CudaVirtualMemory:
    """Memory of one device in its primary context, which is torch's. Sizes are bytes; everything raises DriverError."""

    def __init__(self, device: int) -> None:
        library = cuda_driver.library()
        self._device = device
        self._functions: dict[str, Any] = {}
        for name, types in _PROTOTYPES.items():
            self._functions[name] = library[name]  # A function object of our own, which nobody else gives types.
            self._functions[name].argtypes = types
        location = _Location(_ON_DEVICE, device)
        self._properties = _AllocationProperties(type=_PINNED, location=location)
        self._access = _Access(location, _READ_AND_WRITE)
        granule = _size()
        self._call("cuMemGetAllocationGranularity", ctypes.byref(granule), ctypes.byref(self._properties), _MINIMUM)
        self.granule = int(granule.value)

    def _call(self, name: str, *arguments: Any) -> None:
        cuda_driver.ensure_context(self._device)
        code = self._functions[name](*arguments)
        if code != 0:
            raise DriverError(code, name)

    def reserve(self, size: int) -> int:
        """Addresses behind which there is nothing."""
        address = _u64()
        self._call("cuMemAddressReserve", ctypes.byref(address), size, 0, 0, 0)
        return int(address.value)

    def release_addresses(self, address: int, size: int) -> None:
        """Give them back."""
        self._call("cuMemAddressFree", address, size)

    def map(self, address: int, size: int) -> int:
        """Put new memory behind addresses, whole granules; its handle."""
        handle = _u64()
        with self._relaxed():
            self._call("cuMemCreate", ctypes.byref(handle), size, ctypes.byref(self._properties), 0)
            try:
                self._call("cuMemMap", address, size, 0, handle, 0)
                try:
                    self._call("cuMemSetAccess", address, size, ctypes.byref(self._access), 1)
                except DriverError:
                    self._call("cuMemUnmap", address, size)
                    raise
            except DriverError:
                self._call("cuMemRelease", handle)
                raise
        return int(handle.value)

    def unmap(self, address: int, size: int, handle: int) -> None:
        """Take it away and free it."""
        self._call("cuMemUnmap", address, size)
        self._call("cuMemRelease", handle)

    def write(self, address: int, data: bytes) -> None:
        """Copy to the device, and wait."""
        self._call("cuMemcpyHtoD_v2", address, data, len(data))

    def read(self, address: int, size: int) -> bytes:
        """Copy from the device, and wait."""
        buffer = ctypes.create_string_buffer(size)
        self._call("cuMemcpyDtoH_v2", buffer, address, size)
        return buffer.raw

    def synchronize(self) -> None:
        """Wait for all work on the device."""
        self._call("cuCtxSynchronize")

    def is_capturing(self, stream: int) -> bool:
        """True if what is put on the stream (0: the default one) is being recorded for a CUDA graph."""
        status = ctypes.c_int()
        try:
            self._call("cuStreamIsCapturing", stream or None, ctypes.byref(status))
        except DriverError as error:
            if error.code == _CAPTURE_IMPLICIT:  # The default stream may not even be asked while another one records.
                return True
            raise
        return status.value != 0

    @contextmanager
    def _relaxed(self) -> Iterator[None]:
        """Memory may be made in this thread while a graph is recorded, as torch's own allocator does it."""
        mode = ctypes.c_int(_RELAXED)
        self._call("cuThreadExchangeStreamCaptureMode", ctypes.byref(mode))
        try:
            yield
        finally:
            self._call("cuThreadExchangeStreamCaptureMode", ctypes.byref(mode))
