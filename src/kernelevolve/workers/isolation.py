"""What a worker may reach: namespaces, a read-only file system, limits, no capabilities, few system calls. Linux only.

The one place that decides it; ``mounts``, ``landlock``, ``seccomp`` and ``task_groups`` know how each is done. Every
measure is tried on its own; what the kernel refuses is written into the report, the worker runs with what is left if
the user's choice (``sandbox``) allows that, and the report goes into every measurement. Three steps, because a PID
namespace begins with the next child: ``enter_namespaces`` in the process that forks the supervisor,
``arrange_file_system`` in the supervisor, ``confine`` in the worker itself.
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
from enum import IntEnum, StrEnum
from pathlib import Path

from kernelevolve.workers import landlock, mounts, seccomp, task_groups

_NEWNS, _NEWIPC, _NEWUSER, _NEWPID, _NEWNET = 0x20000, 0x8000000, 0x10000000, 0x20000000, 0x40000000
_PR_SET_PDEATHSIG, _PR_CAPBSET_DROP, _PR_SET_CHILD_SUBREAPER, _PR_SET_NO_NEW_PRIVS, _PR_CAP_AMBIENT = 1, 24, 36, 38, 47
_CAPABILITY_VERSION_3 = 0x20080522

_OFF = "switched off"
OWN_THREADS = Path("/proc/self/task")
"""Of this process alone. The CUDA driver names its threads by writing here, and does not start if it may not."""

_libc = ctypes.CDLL(None, use_errno=True)


class Measure(StrEnum):
    """Walls that can be left out. Limits on resources and dropped capabilities cannot."""

    NAMESPACES = "namespaces"
    LANDLOCK = "landlock"
    SECCOMP = "seccomp"


class Capability(IntEnum):
    """Capabilities that a tool needs inside a worker, by their numbers in ``linux/capability.h``."""

    SYS_ADMIN = 21
    """For counters of an NVIDIA GPU. What else it allows (mounts, namespaces, bpf) seccomp and Landlock still deny."""


@dataclass(frozen=True, slots=True)
class IsolationPolicy:
    """What one worker is allowed. Paths are absolute and resolved."""

    scratch: Path
    """Working, home and temporary directory; nothing else that outlasts the worker can be written."""
    writable: tuple[Path, ...] = ()
    """Further writable directories (the compile cache of a trusted baseline)."""
    hidden: tuple[Path, ...] = ()
    """Directories that appear empty: other candidates' files, world-writable places where answers could be left."""
    visible: tuple[Path, ...] = ()
    """Directories to be shown, read-only, even if they lie below a hidden one: the interpreter and our own code."""
    measures: frozenset[Measure] = frozenset(Measure)
    """What is tried."""
    capabilities: frozenset[Capability] = frozenset()
    """What a profiled worker keeps; none in a worker that is judged."""
    starts_programs: bool = False
    """Whether it holds no candidate itself and starts processes that use a GPU, under a tool that watches them."""
    memory_bytes: int | None = None
    """Memory that a worker may use; None for no limit."""
    limit_addresses: bool = True
    """Whether its address space is limited too, beyond what the zygote already maps. Sanitizers reserve terabytes."""
    cpu_seconds: int = 3600
    file_bytes: int = 1 << 30
    """Largest file that may be written."""


def interpreter_directories() -> tuple[Path, ...]:
    """Directories without which Python, its packages and our own code do not run."""
    found = {Path(entry).resolve() for entry in (sys.prefix, sys.base_prefix, *sys.path) if entry}
    return tuple(sorted(path for path in found if path.is_dir()))


def module_path() -> list[str]:
    """``sys.path`` for a process behind walls: without links, which may lie in a directory that it does not see."""
    return [str(Path(entry).resolve()) for entry in sys.path if entry and Path(entry).is_absolute()]


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
    if Measure.NAMESPACES not in policy.measures:
        return dict.fromkeys(names, _OFF)
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
        mounts.arrange(
            (*policy.writable, policy.scratch),
            policy.visible,
            policy.hidden,
            own_processes=report.get("pid") == "own",
        )
        report["files"] = "read-only"
    except OSError as error:
        report["files"] = f"refused: {error.strerror}"


def confine(policy: IsolationPolicy, report: dict[str, str]) -> None:
    """Step three, in the worker: limits, no capabilities, Landlock, and last, as it denies other steps, seccomp."""
    _set_limits(policy, report)
    _prctl(_PR_SET_NO_NEW_PRIVS, 1)
    try:
        _drop_capabilities(policy.capabilities)
        kept = ", ".join(sorted(capability.name for capability in policy.capabilities))
        report["capabilities"] = f"all dropped but {kept}" if kept else "none"
    except OSError as error:
        report["capabilities"] = f"kept: {error.strerror}"
    report["landlock"] = report["seccomp"] = _OFF
    if Measure.LANDLOCK in policy.measures:
        try:
            report["landlock"] = landlock.restrict(_landlock_rules(policy, report))
        except OSError as error:
            report["landlock"] = f"refused: {error.strerror}"
    if Measure.SECCOMP in policy.measures:
        try:
            seccomp.deny_system_calls()
            report["seccomp"] = "on"
        except OSError as error:
            report["seccomp"] = f"refused: {error.strerror}"


def _set_limits(policy: IsolationPolicy, report: dict[str, str]) -> None:
    limits = {
        resource.RLIMIT_CORE: 0,
        resource.RLIMIT_FSIZE: policy.file_bytes,
        resource.RLIMIT_CPU: policy.cpu_seconds,
    }
    if policy.memory_bytes is not None and policy.limit_addresses:
        limits[resource.RLIMIT_AS] = _mapped_bytes() + policy.memory_bytes
    if "processes" not in report:
        # In a user namespace of its own this counts the worker's; elsewhere all of the user's, and root is exempt.
        report["processes"] = "watched by the judge"
        if report.get("user") == "own":
            limits[resource.RLIMIT_NPROC] = task_groups.TASK_LIMIT
            report["processes"] = f"at most {task_groups.TASK_LIMIT} tasks by resource limit"
    for kind, value in limits.items():
        hard = resource.getrlimit(kind)[1]
        value = value if hard == resource.RLIM_INFINITY else min(value, hard)
        resource.setrlimit(kind, (value, value))


def _landlock_rules(policy: IsolationPolicy, report: dict[str, str]) -> landlock.Rules:
    # Where a tool starts the process in which CUDA runs, its directory is not known yet. A /proc of the worker's own
    # holds nobody else's, and what steers the kernel is mounted read-only there.
    elsewhere = policy.capabilities or policy.starts_programs
    threads = Path("/proc") if elsewhere and report.get("pid") == "own" else OWN_THREADS
    places = (policy.scratch, *policy.writable, threads)
    if report["files"] == "read-only":
        # What is hidden is an empty file system of the worker's own, and what it must not see is out of sight.
        return landlock.Rules((Path("/"),), (*places, *policy.hidden), mounts.device_nodes())
    shared = frozenset({*policy.hidden, mounts.DEVICES, mounts.SERVICES})
    return landlock.Rules((*landlock.all_but(shared), *policy.visible), places, mounts.device_nodes())


def _mapped_bytes() -> int:
    return int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()


def _drop_capabilities(kept: frozenset[Capability]) -> None:
    with contextlib.suppress(OSError):
        # Fails for whoever lacks CAP_SETPCAP, who has nothing to drop, and beyond the last capability of this kernel.
        for capability in range(64):
            if capability not in kept:
                _prctl(_PR_CAPBSET_DROP, capability)
    with contextlib.suppress(OSError):
        _prctl(_PR_CAP_AMBIENT, 4)
    header = struct.pack("Ii", _CAPABILITY_VERSION_3, 0)
    bits = sum(1 << capability for capability in kept)
    lower = (bits & 0xFFFFFFFF,) * 2 + (0,)  # Effective, permitted and inheritable; then the same for the upper half.
    upper = (bits >> 32,) * 2 + (0,)
    _call(_libc.capset(header, struct.pack("6I", *lower, *upper)), "capset")
