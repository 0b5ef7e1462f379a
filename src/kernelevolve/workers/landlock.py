"""Landlock: what a worker may read, write and signal, enforced by the kernel without namespaces and without privilege.

Where workers have a mount namespace this is a second lock on the same door; where the kernel refuses them one it is the
only lock. It knows contents and names of files, not their modes and owners: a program that owns a file outside of what
it may write can still ``chmod`` it.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import os
import stat
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

_SYS_CREATE_RULESET, _SYS_ADD_RULE, _SYS_RESTRICT_SELF = 444, 445, 446  # The same on every processor.
_CREATE_RULESET_VERSION, _RULE_PATH_BENEATH, _PR_SET_NO_NEW_PRIVS = 1, 1, 38

_EXECUTE, _WRITE_FILE, _READ_FILE, _READ_DIR, _REMOVE_DIR, _REMOVE_FILE = (1 << bit for bit in range(6))
_MAKE_CHAR, _MAKE_DIR, _MAKE_REG, _MAKE_SOCK, _MAKE_FIFO, _MAKE_BLOCK, _MAKE_SYM = (1 << bit for bit in range(6, 13))
_REFER, _TRUNCATE, _IOCTL_DEV = (1 << bit for bit in range(13, 16))
_BIND_TCP, _CONNECT_TCP = 1, 2
_ABSTRACT_UNIX_SOCKET, _SIGNAL = 1, 2

_READING = _EXECUTE | _READ_FILE | _READ_DIR
_WRITING = (
    _WRITE_FILE | _REMOVE_DIR | _REMOVE_FILE | _MAKE_DIR | _MAKE_REG | _MAKE_SOCK | _MAKE_FIFO | _MAKE_SYM | _REFER
    | _TRUNCATE
)  # fmt: skip
_DEVICE = _READ_FILE | _WRITE_FILE | _IOCTL_DEV
_ON_FILES = _EXECUTE | _READ_FILE | _WRITE_FILE | _TRUNCATE | _IOCTL_DEV
"""What can be said of something that is no directory."""

LEAST_ABI = 3
"""Before 2 no file can be renamed into another directory, as compilers do; before 3 any file can be truncated."""
_NETWORK_ABI, _IOCTL_ABI, _SCOPE_ABI = 4, 5, 6

_libc = ctypes.CDLL(None, use_errno=True)


@dataclass(frozen=True, slots=True)
class Rules:
    """What is allowed; everything else is denied. Files and directories, these with all that lies below."""

    readable: tuple[Path, ...]
    writable: tuple[Path, ...]
    """Readable too."""
    devices: tuple[Path, ...] = ()
    """Device nodes (or directories of them) to be read, written and controlled."""
    scoped: bool = True
    """Whether processes outside can neither be signalled nor be reached through abstract sockets."""


def abi() -> int:
    """Version of the kernel's Landlock; 0 if there is none or it is switched off."""
    found: int = _libc.syscall(_SYS_CREATE_RULESET, None, ctypes.c_size_t(0), _CREATE_RULESET_VERSION)
    return max(0, found)


def restrict(rules: Rules) -> str:
    """Hold this process and its children to the rules, for good. Returns words for a report, which begin with 'on'.

    It must have one thread, and gives up gaining privileges by running a program. OSError says why it cannot be done;
    then nothing has changed.
    """
    version = abi()
    if version < LEAST_ABI:
        raise OSError(errno.ENOSYS, f"ABI {version}, and {LEAST_ABI} is needed" if version else "the kernel has none")
    handled = _READING | _WRITING | _MAKE_CHAR | _MAKE_BLOCK | (_IOCTL_DEV if version >= _IOCTL_ABI else 0)
    scoped = rules.scoped and version >= _SCOPE_ABI
    # struct landlock_ruleset_attr, which has grown; an older kernel takes the longer one if the rest is zero.
    attributes = struct.pack(
        "QQQ",
        handled,
        _BIND_TCP | _CONNECT_TCP if version >= _NETWORK_ABI else 0,
        _ABSTRACT_UNIX_SOCKET | _SIGNAL if scoped else 0,
    )
    ruleset = _checked(_libc.syscall(_SYS_CREATE_RULESET, attributes, ctypes.c_size_t(len(attributes)), 0))
    try:
        for paths, access in (
            (rules.readable, _READING),
            (rules.writable, _READING | _WRITING),
            (rules.devices, _DEVICE),
        ):
            for path in paths:
                _allow(ruleset, path, access & handled)
        _checked(_libc.prctl(_PR_SET_NO_NEW_PRIVS, *map(ctypes.c_ulong, (1, 0, 0, 0))))
        _checked(_libc.syscall(_SYS_RESTRICT_SELF, ruleset, 0))
    finally:
        os.close(ruleset)
    denied = ["files", *["TCP"] * (version >= _NETWORK_ABI), *["signals, abstract sockets"] * scoped]
    return f"on, ABI {version}: {', '.join(denied)}"


def _allow(ruleset: int, path: Path, access: int) -> None:
    try:
        descriptor = os.open(path, os.O_PATH | os.O_CLOEXEC)
    except OSError:
        return  # Gone meanwhile, or out of reach anyway: no right is needed for it.
    try:
        if not stat.S_ISDIR(os.fstat(descriptor).st_mode):
            access &= _ON_FILES
        rule = struct.pack("=Qi", access, descriptor)
        _checked(_libc.syscall(_SYS_ADD_RULE, ruleset, _RULE_PATH_BENEATH, rule, 0))
    finally:
        os.close(descriptor)


def _checked(result: int) -> int:
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
    return result


def all_but(hidden: frozenset[Path], directory: Path = Path("/")) -> Iterator[Path]:
    """Paths that together cover everything below a directory but what is hidden.

    What lies on the way to a hidden place is covered entry by entry, so such a directory cannot itself be listed.
    """
    if directory in hidden:
        return
    if not any(path.is_relative_to(directory) for path in hidden):
        yield directory
        return
    with contextlib.suppress(OSError):
        for entry in directory.iterdir():
            # A link needs no right of its own: what counts is where the file that it names lies.
            if not entry.is_symlink():
                yield from all_but(hidden, entry)
