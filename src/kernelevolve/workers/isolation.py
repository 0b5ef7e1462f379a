"""What a worker may reach: namespaces, a read-only file system, resource limits, no capabilities. Linux only.

The one place for it. Every measure is tried on its own; what the kernel refuses is written into the report, the worker
runs with what is left, and the report goes into every measurement. Three steps, because a PID namespace begins with
the next child: ``enter_namespaces`` in the process that forks the supervisor, ``arrange_file_system`` in the
supervisor, ``confine`` in the worker itself.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import resource
import signal
import struct
import sys
from dataclasses import dataclass
from pathlib import Path

_NEWNS, _NEWIPC, _NEWUSER, _NEWPID, _NEWNET = 0x20000, 0x8000000, 0x10000000, 0x20000000, 0x40000000
_MS_BIND, _MS_REC, _MS_PRIVATE = 0x1000, 0x4000, 0x40000
_AT_FDCWD, _AT_RECURSIVE, _ATTR_READ_ONLY, _SYS_MOUNT_SETATTR = -100, 0x8000, 1, 442
_PR_SET_PDEATHSIG, _PR_CAPBSET_DROP, _PR_SET_CHILD_SUBREAPER, _PR_SET_NO_NEW_PRIVS, _PR_CAP_AMBIENT = 1, 24, 36, 38, 47
_CAPABILITY_VERSION_3 = 0x20080522

_libc = ctypes.CDLL(None, use_errno=True)


@dataclass(frozen=True, slots=True)
class IsolationPolicy:
    """What one worker is allowed. Paths are absolute and resolved."""

    scratch: Path
    """Working, home and temporary directory; with a mount namespace nothing else can be written."""
    writable: tuple[Path, ...] = ()
    """Further writable directories (the compile cache of a trusted baseline)."""
    hidden: tuple[Path, ...] = ()
    """Directories that appear empty: other candidates' files, world-writable places where answers could be left."""
    visible: tuple[Path, ...] = ()
    """Directories to be shown, read-only, even if they lie below a hidden one: the interpreter and our own code."""
    namespaces: bool = True
    memory_bytes: int | None = None
    """Limit on the address space beyond what the zygote already maps; None for none (CUDA reserves terabytes)."""
    cpu_seconds: int = 3600
    file_bytes: int = 1 << 30
    """Largest file that may be written."""


def interpreter_directories() -> tuple[Path, ...]:
    """Directories without which Python, its packages and our own code do not run."""
    found = {Path(entry).resolve() for entry in (sys.prefix, sys.base_prefix, *sys.path) if entry}
    return tuple(sorted(path for path in found if path.is_dir()))


def _call(result: int, what: str) -> None:
    if result != 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{what}: {os.strerror(number)}")


def _prctl(option: int, *args: int) -> None:
    _call(_libc.prctl(option, *(ctypes.c_ulong(a) for a in (*args, 0, 0, 0, 0)[:4])), f"prctl {option}")


def become_subreaper() -> None:
    """Orphaned descendants of this process become its children, so that none escapes."""
    _prctl(_PR_SET_CHILD_SUBREAPER, 1)


def die_with_parent() -> None:
    """This process is killed when the (single-threaded) process that forked it ends."""
    _prctl(_PR_SET_PDEATHSIG, int(signal.SIGKILL))


def enter_namespaces(policy: IsolationPolicy) -> dict[str, str]:
    """Step one: leave the host's namespaces; the PID namespace holds from the next fork on.

    Returns namespace -> 'own' or why not.
    """
    names = ("mount", "pid", "ipc", "network")
    if not policy.namespaces:
        return dict.fromkeys(names, "switched off")
    report: dict[str, str] = {}
    uid, gid = os.geteuid(), os.getegid()
    try:
        _call(_libc.unshare(_NEWNS), "mount namespace")
        report["mount"] = "own"
    except OSError:
        # Without privilege a user namespace of our own, in which our uid keeps its number, allows the others.
        try:
            _call(_libc.unshare(_NEWUSER | _NEWNS), "user namespace")
            Path("/proc/self/setgroups").write_text("deny")
            Path("/proc/self/uid_map").write_text(f"{uid} {uid} 1")
            Path("/proc/self/gid_map").write_text(f"{gid} {gid} 1")
            report["mount"] = report["user"] = "own"
        except OSError as error:
            return dict.fromkeys(names, f"refused: {error.strerror}")
    for name, flag in (("pid", _NEWPID), ("ipc", _NEWIPC), ("network", _NEWNET)):
        try:
            _call(_libc.unshare(flag), f"{name} namespace")
            report[name] = "own"
        except OSError as error:
            report[name] = f"refused: {error.strerror}"
    return report


def arrange_file_system(policy: IsolationPolicy, report: dict[str, str]) -> None:
    """Step two, in the supervisor: a fresh /proc, everything read-only but the scratch directory, hidden places empty.

    Adds 'files' to the report. Without a mount namespace of its own nothing is touched.
    """
    if report.get("mount") != "own":
        report["files"] = "shared"
        return
    try:
        _mount("none", "/", "", _MS_REC | _MS_PRIVATE)
        if report.get("pid") == "own":
            _mount("proc", "/proc", "proc", 0)
        shown = dict.fromkeys(policy.visible, False) | dict.fromkeys((*policy.writable, policy.scratch), True)
        hidden = {path for path in policy.hidden if path.is_dir()} - shown.keys()
        # Held open, because hiding what lies above takes them out of sight.
        held = {path: os.open(path, os.O_PATH | os.O_DIRECTORY) for path in shown if path.is_dir()}
        _set_read_only(Path("/"), recursive=True)
        if report.get("pid") == "own":
            _set_read_only(Path("/proc"), clear=True)
        for path in sorted(hidden | held.keys(), key=lambda path: len(path.parts)):
            if path in hidden:
                path.mkdir(parents=True, exist_ok=True)
                _mount("tmpfs", str(path), "tmpfs", 0, "size=64m,mode=1777")
            elif shown[path] or any(path.is_relative_to(place) for place in hidden):
                path.mkdir(parents=True, exist_ok=True)
                _mount(f"/proc/self/fd/{held[path]}", str(path), "", _MS_BIND)
                _set_read_only(path, clear=shown[path])
        for descriptor in held.values():
            os.close(descriptor)
        report["files"] = "read-only"
    except OSError as error:
        report["files"] = f"refused: {error}"


def _mount(source: str, target: str, kind: str, flags: int, options: str = "") -> None:
    result = _libc.mount(source.encode(), target.encode(), kind.encode(), ctypes.c_ulong(flags), options.encode())
    _call(result, f"mount {target}")


def _set_read_only(path: Path, *, recursive: bool = False, clear: bool = False) -> None:
    attributes = struct.pack("QQQQ", 0 if clear else _ATTR_READ_ONLY, _ATTR_READ_ONLY if clear else 0, 0, 0)
    flags = _AT_RECURSIVE if recursive else 0
    result = _libc.syscall(
        _SYS_MOUNT_SETATTR, _AT_FDCWD, str(path).encode(), flags, attributes, ctypes.c_size_t(len(attributes))
    )
    _call(result, f"mount_setattr {path}")


def confine(policy: IsolationPolicy) -> dict[str, str]:
    """Step three, in the worker: resource limits, no capabilities, no way to gain any. Returns what was refused."""
    report: dict[str, str] = {}
    limits = {
        resource.RLIMIT_CORE: 0,
        resource.RLIMIT_FSIZE: policy.file_bytes,
        resource.RLIMIT_CPU: policy.cpu_seconds,
    }
    if policy.memory_bytes is not None:
        limits[resource.RLIMIT_AS] = _mapped_bytes() + policy.memory_bytes
    for kind, value in limits.items():
        hard = resource.getrlimit(kind)[1]
        value = value if hard == resource.RLIM_INFINITY else min(value, hard)
        resource.setrlimit(kind, (value, value))
    try:
        _drop_capabilities()
        report["capabilities"] = "none"
    except OSError as error:
        report["capabilities"] = f"kept: {error.strerror}"
    _prctl(_PR_SET_NO_NEW_PRIVS, 1)
    return report


def _mapped_bytes() -> int:
    return int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()


def _drop_capabilities() -> None:
    with contextlib.suppress(OSError):
        # Fails for whoever lacks CAP_SETPCAP, who has nothing to drop, and beyond the last capability of this kernel.
        for capability in range(64):
            _prctl(_PR_CAPBSET_DROP, capability)
    with contextlib.suppress(OSError):
        _prctl(_PR_CAP_AMBIENT, 4)
    header = struct.pack("Ii", _CAPABILITY_VERSION_3, 0)
    _call(_libc.capset(header, struct.pack("6I", *[0] * 6)), "capset")
