"""The filter: what it says of each call, computed by a small interpreter; and what the kernel makes of it."""

from __future__ import annotations

import ctypes
import errno
import platform
import socket
import struct
import subprocess
import sys
from collections.abc import Sequence

import pytest

from kernelevolve.workers.seccomp import DENIED, MACHINES, Machine, filter_program

ALLOW = 0x7FFF0000
EVERY = pytest.mark.parametrize("machine", MACHINES.values(), ids=list(MACHINES))


def answer(machine: Machine, number: int, argument: int = 0, architecture: int | None = None) -> int:
    """What the filter returns for a call; an error number, or 0 for a call that is allowed."""
    data = struct.pack("IIQQ", number, architecture or machine.audit_architecture, 0, argument)
    program = [struct.unpack("HBBI", operation) for operation in filter_program(machine)]
    at = accumulator = 0
    while True:
        code, yes, no, constant = program[at]
        at += 1
        match code:
            case 0x20:
                (accumulator,) = struct.unpack_from("I", data, constant)
            case 0x15:
                at += yes if accumulator == constant else no
            case 0x35:
                at += yes if accumulator >= constant else no
            case 0x45:
                at += yes if accumulator & constant else no
            case 0x06:
                return 0 if constant == ALLOW else constant & 0xFFFF


@EVERY
def test_every_listed_call_is_denied(machine: Machine) -> None:
    for name, numbers in DENIED.items():
        number = numbers[machine.column]
        assert number is None or answer(machine, number) == errno.EPERM, name


@EVERY
def test_other_calls_are_allowed(machine: Machine) -> None:
    special = {machine.clone, machine.clone3, machine.socket, machine.personality}
    denied = {numbers[machine.column] for numbers in DENIED.values()} | special
    assert all(answer(machine, number, 0xFFFFFFFF) == 0 for number in range(600) if number not in denied)


@EVERY
def test_threads_and_processes_are_allowed_and_namespaces_are_not(machine: Machine) -> None:
    thread, process = 0x3D0F00, 0x1200011
    assert answer(machine, machine.clone, thread) == answer(machine, machine.clone, process) == 0
    for flag in (0x20000, 0x2000000, 0x4000000, 0x8000000, 0x10000000, 0x20000000, 0x40000000):
        assert answer(machine, machine.clone, process | flag) == errno.EPERM
    assert answer(machine, machine.clone3) == errno.ENOSYS


@EVERY
def test_only_local_sockets(machine: Machine) -> None:
    assert answer(machine, machine.socket, socket.AF_UNIX) == 0
    for family in (socket.AF_INET, socket.AF_INET6, 16, 17, 38, 40):
        assert answer(machine, machine.socket, family) == errno.EPERM


@EVERY
def test_personality_can_only_be_asked_for(machine: Machine) -> None:
    assert answer(machine, machine.personality, 0xFFFFFFFF) == 0
    assert answer(machine, machine.personality, 0x0040000) == errno.EPERM


@EVERY
def test_calls_of_another_convention_are_denied(machine: Machine) -> None:
    read = 0
    assert answer(machine, read, architecture=0x40000003) == errno.EPERM
    if machine.x32:
        assert answer(machine, 0x40000000 | read) == errno.EPERM


def outcomes(attempts: Sequence[str]) -> list[int]:
    """Error numbers of expressions that return -1 on an error, under the filter, in a process of its own."""
    program = (
        "import ctypes\nfrom kernelevolve.workers.seccomp import deny_system_calls\n"
        "libc = ctypes.CDLL(None, use_errno=True)\ndeny_system_calls()\n"
        f"for attempt in {list(attempts)!r}:\n"
        "    ctypes.set_errno(0)\n    print(ctypes.get_errno() if eval(attempt) == -1 else 0)\n"
    )
    finished = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    return [int(line) for line in finished.stdout.split()]


@pytest.mark.skipif(platform.machine() not in MACHINES, reason="no filter for this processor")
def test_the_kernel_holds_to_it() -> None:
    denied = ["libc.ptrace(0, 0, 0, 0)", "libc.unshare(0x20000)", "libc.mount(b'none', b'/', b'tmpfs', 0, None)",
              "libc.umount(b'/proc')", "libc.socket(2, 1, 0)", "libc.process_vm_readv(1, None, 0, None, 0, 0)",
              "libc.personality(0x40000)", "libc.setns(0, 0)", "libc.klogctl(10, None, 0)"]  # fmt: skip
    assert outcomes(denied) == [errno.EPERM] * len(denied)
    assert outcomes(["libc.socket(1, 1, 0)", "libc.getpid()", "libc.personality(-1)"]) == [0, 0, 0]


@pytest.mark.skipif(platform.machine() != "x86_64", reason="x32 is a convention of x86_64")
def test_the_kernel_denies_x32() -> None:
    assert outcomes(["libc.syscall(ctypes.c_long(0x40000000 | 39))"]) == [errno.EPERM]


@pytest.mark.skipif(platform.machine() not in MACHINES, reason="no filter for this processor")
def test_times_are_not_spoilt_by_it() -> None:
    """A filter without its flag switches off speculative store bypass on kernels before 5.16."""
    told = "print(open('/proc/self/status').read())"
    before = subprocess.run([sys.executable, "-c", told], capture_output=True, text=True, check=True).stdout
    filtered = f"from kernelevolve.workers.seccomp import deny_system_calls\ndeny_system_calls()\n{told}"
    after = subprocess.run([sys.executable, "-c", filtered], capture_output=True, text=True, check=True).stdout
    lines = [[line for line in text.splitlines() if line.startswith("Spec")] for text in (before, after)]
    assert lines[0] == lines[1]


@pytest.mark.skipif(platform.machine() not in MACHINES, reason="the numbers of this processor are not listed")
def test_numbers_are_those_of_the_kernel() -> None:
    """A few calls that have a wrapper in the C library, told apart by what they do."""
    libc = ctypes.CDLL(None, use_errno=True)
    machine = MACHINES[platform.machine()]
    assert libc.syscall(machine.personality, ctypes.c_ulong(0xFFFFFFFF)) == libc.personality(ctypes.c_ulong(0xFFFFFFFF))
    descriptor = libc.syscall(machine.socket, socket.AF_UNIX, socket.SOCK_STREAM, 0)
    assert socket.socket(fileno=descriptor).family == socket.AF_UNIX
