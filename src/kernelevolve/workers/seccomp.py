"""System calls that a worker may not make: a filter in the kernel that answers them with EPERM.

No kernel, compiler or CUDA library needs what is denied here; it looks into other processes, rearranges namespaces and
mounts, reaches the network, or opens parts of the operating system that have often had holes. Everything else is
allowed, ioctl included, because CUDA lives on it. A denied call fails like any other that the user may not make, so
that honest code which merely tries goes on.

The filter is a program in classic BPF: it loads words of the ``seccomp_data`` of a call, compares, jumps forwards and
returns. It holds for every thread and child of the process, and cannot be taken off.
"""

from __future__ import annotations

import ctypes
import errno
import os
import platform
import socket
import struct
from dataclasses import dataclass

_PR_SET_NO_NEW_PRIVS, _SECCOMP_SET_MODE_FILTER = 38, 1
_SPEC_ALLOW = 1 << 2
"""Without it older kernels switch off speculative store bypass for a filtered process, which spoils its times."""

# Classic BPF: an operation is (code, jump if true, jump if false, constant); jumps count the operations skipped.
_LOAD, _JUMP_EQUAL, _JUMP_AT_LEAST, _JUMP_ANY_BIT, _RETURN = 0x20, 0x15, 0x35, 0x45, 0x06
_NUMBER, _ARCHITECTURE, _FIRST_ARGUMENT = 0, 4, 16  # Offsets in seccomp_data; of an argument the lower half.
_ALLOW, _ERRNO = 0x7FFF0000, 0x00050000
_X32_BIT = 0x40000000

_NAMESPACE_FLAGS = 0x00020000 | 0x02000000 | 0x04000000 | 0x08000000 | 0x10000000 | 0x20000000 | 0x40000000
"""CLONE_NEWNS, NEWCGROUP, NEWUTS, NEWIPC, NEWUSER, NEWPID, NEWNET."""
_PERSONALITY_QUERY = 0xFFFFFFFF

DENIED: dict[str, tuple[int | None, int | None]] = {
    # Other processes: their memory, their descriptors, their addresses.
    "ptrace": (101, 117), "process_vm_readv": (310, 270), "process_vm_writev": (311, 271),
    "process_madvise": (440, 440), "pidfd_getfd": (438, 438), "kcmp": (312, 272),
    # Namespaces and mounts (clone is looked at by its flags).
    "unshare": (272, 97), "setns": (308, 268), "mount": (165, 40), "umount2": (166, 39), "pivot_root": (155, 41),
    "chroot": (161, 51), "move_mount": (429, 429), "open_tree": (428, 428), "open_tree_attr": (467, 467),
    "fsopen": (430, 430), "fsconfig": (431, 431), "fsmount": (432, 432), "fspick": (433, 433),
    "mount_setattr": (442, 442), "open_by_handle_at": (304, 265), "fanotify_init": (300, 262),
    "quotactl": (179, 60), "quotactl_fd": (443, 443),
    # Wide doors into the kernel.
    "bpf": (321, 280), "perf_event_open": (298, 241), "userfaultfd": (323, 282), "io_uring_setup": (425, 425),
    "io_uring_enter": (426, 426), "io_uring_register": (427, 427), "add_key": (248, 217), "request_key": (249, 218),
    "keyctl": (250, 219), "lookup_dcookie": (212, 18), "nfsservctl": (180, 42), "iopl": (172, None),
    "ioperm": (173, None),
    # The machine itself.
    "kexec_load": (246, 104), "kexec_file_load": (320, 294), "init_module": (175, 105), "finit_module": (313, 273),
    "delete_module": (176, 106), "reboot": (169, 142), "swapon": (167, 224), "swapoff": (168, 225),
    "acct": (163, 89), "syslog": (103, 116), "sethostname": (170, 161), "setdomainname": (171, 162),
    "vhangup": (153, 58), "settimeofday": (164, 170), "clock_settime": (227, 112), "adjtimex": (159, 171),
    "clock_adjtime": (305, 266),
}  # fmt: skip
"""System call -> its number on x86_64 and on aarch64 (None: there is none)."""


@dataclass(frozen=True, slots=True)
class Machine:
    """What differs between processors: how the kernel names their calls, and where their numbers stand in DENIED."""

    audit_architecture: int
    column: int
    clone: int
    clone3: int
    socket: int
    personality: int
    seccomp: int
    x32: bool = False


MACHINES = {
    "x86_64": Machine(0xC000003E, 0, clone=56, clone3=435, socket=41, personality=135, seccomp=317, x32=True),
    "aarch64": Machine(0xC00000B7, 1, clone=220, clone3=435, socket=198, personality=92, seccomp=277),
}


def deny_system_calls() -> None:
    """Put the filter on this process, for good. OSError says why not; then nothing has changed.

    The process must have one thread, and gives up gaining privileges by running a program.
    """
    machine = MACHINES.get(platform.machine())
    if machine is None or struct.calcsize("P") != 8:
        raise OSError(errno.ENOSYS, f"no list of system calls for {platform.machine()}")
    program = b"".join(filter_program(machine))
    text = ctypes.create_string_buffer(program)
    # struct sock_fprog: the number of operations, and where they are.
    described = struct.pack("HxxxxxxQ", len(program) // 8, ctypes.addressof(text))
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(_PR_SET_NO_NEW_PRIVS, *map(ctypes.c_ulong, (1, 0, 0, 0))) != 0:
        raise _last_error()
    for flags in (_SPEC_ALLOW, 0):
        if libc.syscall(machine.seccomp, _SECCOMP_SET_MODE_FILTER, flags, described) == 0:
            return
        if ctypes.get_errno() != errno.EINVAL:  # Older than 4.17: it does not know the flag.
            break
    raise _last_error()


def _last_error() -> OSError:
    number = ctypes.get_errno()
    return OSError(number, os.strerror(number))


def filter_program(machine: Machine) -> list[bytes]:
    """The operations of the filter, in order."""
    numbers = [number for numbers in DENIED.values() if (number := numbers[machine.column]) is not None]
    return [
        *_foreign_calls(machine),
        *(operation for number in sorted(numbers) for operation in _deny(number)),
        # glibc falls back to clone, whose flags a filter can see; those of clone3 lie in memory.
        *_deny(machine.clone3, errno.ENOSYS),
        *_deny_unless(machine.clone, _operation(_JUMP_ANY_BIT, _NAMESPACE_FLAGS, no=1)),
        *_deny_unless(machine.socket, _operation(_JUMP_EQUAL, int(socket.AF_UNIX), yes=1)),
        *_deny_unless(machine.personality, _operation(_JUMP_EQUAL, _PERSONALITY_QUERY, yes=1)),
        _operation(_RETURN, _ALLOW),
    ]


def _operation(code: int, constant: int, yes: int = 0, no: int = 0) -> bytes:
    return struct.pack("HBBI", code, yes, no, constant)


def _refuse(number: int = errno.EPERM) -> bytes:
    return _operation(_RETURN, _ERRNO | number)


def _foreign_calls(machine: Machine) -> list[bytes]:
    """Deny calls by another processor's convention, whose numbers mean other things; then load the number."""
    x32 = [_operation(_JUMP_AT_LEAST, _X32_BIT, no=1), _refuse()] if machine.x32 else []
    return [
        _operation(_LOAD, _ARCHITECTURE),
        _operation(_JUMP_EQUAL, machine.audit_architecture, yes=1),
        _refuse(),
        _operation(_LOAD, _NUMBER),
        *x32,
    ]


def _deny(number: int, answer: int = errno.EPERM) -> list[bytes]:
    """Deny one call, whatever its arguments."""
    return [_operation(_JUMP_EQUAL, number, no=1), _refuse(answer)]


def _deny_unless(number: int, test: bytes) -> list[bytes]:
    """Decide one call by its first argument: ``test`` skips one operation where the call is allowed."""
    return [
        _operation(_JUMP_EQUAL, number, no=4),
        _operation(_LOAD, _FIRST_ARGUMENT),
        test,
        _refuse(),
        _operation(_RETURN, _ALLOW),
    ]
