"""A worker's view of the files, in a mount namespace of its own: all read-only but its scratch, few devices.

Read-only is not enough for a worker that runs as root without capabilities: what decides there is who owns a file. So
it gets no device nodes (a disk can be read and written past its file system), no part of /proc that steers the kernel
(``core_pattern`` names a program for the kernel to start), and no /run (the sockets of services that obey root).
"""

from __future__ import annotations

import ctypes
import os
import struct
from collections.abc import Iterable
from pathlib import Path

_MS_NOSUID, _MS_NOEXEC, _MS_BIND, _MS_REC, _MS_PRIVATE = 2, 8, 0x1000, 0x4000, 0x40000
_AT_FDCWD, _AT_RECURSIVE, _ATTR_READ_ONLY, _SYS_MOUNT_SETATTR = -100, 0x8000, 1, 442

DEVICES = Path("/dev")
_NODES = ("null", "zero", "full", "random", "urandom", "nvidia*", "kfd", "dri", "dxg")
"""Names in /dev of what programs use: kernels run through the last four."""
_LINKS = {"fd": "/proc/self/fd", "stdin": "/proc/self/fd/0", "stdout": "/proc/self/fd/1", "stderr": "/proc/self/fd/2"}
_STEERING = ("sys", "sysrq-trigger", "irq", "bus", "fs", "driver", "acpi", "scsi")
"""What in /proc is not about processes and obeys whoever owns it."""
SERVICES = Path("/run")
_SYSTEM_IN_SERVICES = (Path("/run/opengl-driver"), Path("/run/current-system"))
"""Where NixOS keeps drivers and programs."""

_libc = ctypes.CDLL(None, use_errno=True)


def device_nodes() -> tuple[Path, ...]:
    """The devices that a worker may use: files in /dev, or directories of them."""
    return tuple(sorted(path for name in _NODES for path in DEVICES.glob(name)))


def arrange(writable: Iterable[Path], visible: Iterable[Path], hidden: Iterable[Path], *, own_processes: bool) -> None:
    """Rearrange the mounts of this process, which must have a mount namespace of its own. Raises OSError.

    ``hidden`` directories appear empty (and can be written to, for this process and its children alone); ``writable``
    ones and, read-only, ``visible`` ones are there even below a hidden one.
    """
    _mount("none", "/", "", _MS_REC | _MS_PRIVATE)
    if own_processes:
        _mount("proc", "/proc", "proc", 0)
    shown = dict.fromkeys((*visible, *_SYSTEM_IN_SERVICES), False) | dict.fromkeys(writable, True)
    empty = {path for path in (*hidden, SERVICES) if path.is_dir()} - shown.keys()
    # Held open, because hiding what lies above takes them out of sight.
    held = {path: os.open(path, os.O_PATH | os.O_DIRECTORY) for path in shown if path.is_dir()}
    _set_read_only(Path("/"), recursive=True)
    if own_processes:
        _set_read_only(Path("/proc"), clear=True)
        _protect_kernel()
    _replace_devices()
    for path in sorted(empty | held.keys(), key=lambda path: len(path.parts)):
        if path in empty:
            path.mkdir(parents=True, exist_ok=True)
            _mount("tmpfs", str(path), "tmpfs", 0, "size=64m,mode=1777")
        elif shown[path] or any(path.is_relative_to(place) for place in empty):
            path.mkdir(parents=True, exist_ok=True)
            _mount(_by_descriptor(held[path]), str(path), "", _MS_BIND)
            _set_read_only(path, clear=shown[path])
    _set_read_only(DEVICES)
    for descriptor in held.values():
        os.close(descriptor)


def _protect_kernel() -> None:
    for path in map(Path("/proc").joinpath, _STEERING):
        if path.exists():
            _mount(str(path), str(path), "", _MS_BIND | _MS_REC)
            _set_read_only(path, recursive=True)


def _replace_devices() -> None:
    """A /dev that holds the few devices; shared memory as it was (read-only unless it is hidden)."""
    nodes = {path: os.open(path, os.O_PATH) for path in (*device_nodes(), DEVICES / "shm") if path.exists()}
    _mount("tmpfs", str(DEVICES), "tmpfs", _MS_NOSUID | _MS_NOEXEC, "size=64k,mode=755")
    for path, descriptor in nodes.items():
        if Path(_by_descriptor(descriptor)).is_dir():
            path.mkdir()
        else:
            path.touch()
        _mount(_by_descriptor(descriptor), str(path), "", _MS_BIND | _MS_REC)
        os.close(descriptor)
    for name, target in _LINKS.items():
        (DEVICES / name).symlink_to(target)


def _by_descriptor(descriptor: int) -> str:
    return f"/proc/self/fd/{descriptor}"


def _mount(source: str, target: str, kind: str, flags: int, options: str = "") -> None:
    _call(
        _libc.mount(source.encode(), target.encode(), kind.encode(), ctypes.c_ulong(flags), options.encode()),
        f"mount {target}",
    )


def _set_read_only(path: Path, *, recursive: bool = False, clear: bool = False) -> None:
    attributes = struct.pack("QQQQ", 0 if clear else _ATTR_READ_ONLY, _ATTR_READ_ONLY if clear else 0, 0, 0)
    flags = _AT_RECURSIVE if recursive else 0
    result = _libc.syscall(
        _SYS_MOUNT_SETATTR, _AT_FDCWD, str(path).encode(), flags, attributes, ctypes.c_size_t(len(attributes))
    )
    _call(result, f"mount_setattr {path}")


def _call(result: int, what: str) -> None:
    if result != 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{what}: {os.strerror(number)}")
