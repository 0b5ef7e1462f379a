"""Guarded device memory: every allocation ends at an address behind which nothing is mapped.

A read or write past the end of a tensor, which torch's own allocator answers from a neighbour or from padding, faults
here as an illegal access. What lies between the end of a tensor and the end of its mapping (less than ``ALIGNMENT``
bytes) and before its start holds a secret pattern, so that a write there is seen as well; a read there is not.

An allocation takes some tenths of a millisecond and whole granules (2 MiB) of memory: for a few calls, never for timed
ones.
"""

from __future__ import annotations

import gc
import secrets
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Protocol

from kernelevolve.languages.toolchain.cuda_driver import DriverError

ALIGNMENT = 16
"""Bytes to which a tensor's start is aligned: the widest loads, Triton's specialisation and tensor maps ask for it."""
_REACH = 4096
"""Bytes before a tensor that hold the pattern at most."""


class OutOfBoundsWrite(Exception):
    """A program wrote to memory beside a tensor."""


class VirtualMemory(Protocol):
    """What the guard needs of a driver. Everything raises DriverError. Addresses, sizes and handles are numbers."""

    granule: int
    """Bytes; mappings start at multiples of it and are multiples of it long."""

    def reserve(self, size: int) -> int:
        """Addresses behind which there is nothing."""
        ...

    def release_addresses(self, address: int, size: int) -> None:
        """Give them back."""
        ...

    def map(self, address: int, size: int) -> int:
        """Put new memory behind addresses; its handle."""
        ...

    def unmap(self, address: int, size: int, handle: int) -> None:
        """Take it away and free it."""
        ...

    def write(self, address: int, data: bytes) -> None:
        """Copy to the device, and wait."""
        ...

    def read(self, address: int, size: int) -> bytes:
        """Copy from the device, and wait."""
        ...

    def synchronize(self) -> None:
        """Wait for all work on the device."""
        ...

    def is_capturing(self, stream: int) -> bool:
        """True if what is put on the stream is being recorded for a CUDA graph."""
        ...


@dataclass(frozen=True, slots=True)
class _Block:
    """One allocation: guard, mapping, guard; the tensor at the end of the mapping."""

    address: int
    size: int
    reserved: int
    """Start of the addresses; the mapping begins one granule later."""
    mapped: int
    """Bytes of the mapping."""
    handle: int
    captured: bool
    """Made while a CUDA graph was recorded: the graph uses it for as long as it lives, whoever frees it."""


class GuardedMemory:
    """The allocations of one device. Thread-safe; ``allocate`` and ``free`` are called by torch from any thread."""

    def __init__(self, driver: VirtualMemory) -> None:
        self._driver = driver
        self._pattern = secrets.token_bytes(_REACH)
        self._blocks: dict[int, _Block] = {}
        self._broken: list[str] = []
        # Freeing a tensor may come in the middle of anything, by way of Python's garbage collector.
        self._lock = threading.RLock()

    def allocate(self, size: int, stream: int) -> int:
        """Address of ``size`` bytes, or 0 for none."""
        if size == 0:
            return 0
        driver, granule = self._driver, self._driver.granule
        with self._lock:
            rounded = _up(size, ALIGNMENT)
            mapped = _up(rounded, granule)
            captured = driver.is_capturing(stream)
            reserved = driver.reserve(mapped + 2 * granule)
            try:
                handle = driver.map(reserved + granule, mapped)
            except DriverError:
                driver.release_addresses(reserved, mapped + 2 * granule)
                raise
            address = reserved + granule + mapped - rounded
            block = _Block(address, size, reserved, mapped, handle, captured)
            if not captured:  # Nothing may be copied while a graph is recorded.
                for zone, pattern in self._zones(block):
                    driver.write(zone, pattern)
            self._blocks[address] = block
            return address

    def free(self, address: int, stream: int) -> None:
        """Take the memory away once all work has ended; 0 is ignored.

        Torch's own allocator lets later work of the same stream have it, so nobody who frees waits for his kernels.
        """
        with self._lock:
            block = self._blocks.get(address)
            if block is None or block.captured or self._driver.is_capturing(stream):
                return
            self._driver.synchronize()
            self._verify(block)
            del self._blocks[address]
            start = block.reserved + self._driver.granule
            self._driver.unmap(start, block.mapped, block.handle)
            self._driver.release_addresses(block.reserved, block.mapped + 2 * self._driver.granule)

    def check(self) -> None:
        """Raises OutOfBoundsWrite if anything was written beside a tensor, one freed in the meantime included."""
        with self._lock, _no_collection():
            self._driver.synchronize()
            for block in tuple(self._blocks.values()):
                self._verify(block)
            broken, self._broken = self._broken, []
        if broken:
            raise OutOfBoundsWrite(broken[0])

    def _verify(self, block: _Block) -> None:
        if block.captured:
            return
        for zone, pattern in self._zones(block):
            found = self._driver.read(zone, len(pattern))
            if found != pattern:
                changed = [i for i, (now, then) in enumerate(zip(found, pattern, strict=True)) if now != then]
                where = (
                    f"at byte {changed[0]} behind the end" if zone > block.address
                    else f"at byte {len(pattern) - changed[-1]} in front of the start"
                )  # fmt: skip
                self._broken.append(f"something was written {where} of a tensor of {block.size} bytes")

    def _zones(self, block: _Block) -> Iterator[tuple[int, bytes]]:
        """Address and content of what lies in the mapping beside the tensor."""
        before = min(_REACH, block.address - block.reserved - self._driver.granule)
        if before:
            yield block.address - before, self._pattern[:before]
        behind = -block.size % ALIGNMENT
        if behind:
            yield block.address + block.size, self._pattern[:behind]


def _up(size: int, unit: int) -> int:
    return -(-size // unit) * unit


@contextmanager
def _no_collection() -> Iterator[None]:
    """No garbage is collected meanwhile: it may hold tensors."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()
