"""How well a worker is shut in: the user's choice, the level that a report amounts to, and what this machine gives."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from enum import StrEnum
from functools import cache
from pathlib import Path
from types import MappingProxyType

from kernelevolve.errors import KernelEvolveError
from kernelevolve.workers import isolation, task_groups
from kernelevolve.workers.isolation import IsolationPolicy, Measure, module_path

_PROBE_SECONDS = 10.0
_BOOTSTRAP = (
    "import json, sys; sys.path[:] = json.loads(sys.argv[1]); "
    "from kernelevolve.workers.sandbox import try_measures; try_measures()"
)


class Sandbox(StrEnum):
    """What the user asks for."""

    AUTO = "auto"
    """Everything that works here; refuse to run candidates where that is too little (``Level.NONE``)."""
    STRICT = "strict"
    """The same; refuse unless it is ``Level.FULL``."""
    NONE = "none"
    """No walls: candidates can do what the user can. Limits on resources stay."""

    @property
    def measures(self) -> frozenset[Measure]:
        """What is tried."""
        return frozenset() if self is Sandbox.NONE else frozenset(Measure)

    def stricter(self, other: Sandbox) -> Sandbox:
        """The stricter of the two."""
        return max(self, other, key=(Sandbox.NONE, Sandbox.AUTO, Sandbox.STRICT).index)


class Level(StrEnum):
    """What a report amounts to."""

    FULL = "full"
    """Own processes, network, IPC and mounts; files read-only; no capabilities; dangerous system calls denied."""
    PARTIAL = "partial"
    """No network, and no other file can be changed; but some other wall of FULL is missing."""
    NONE = "none"
    """A program can reach the network or change other files."""


_FULL = {
    "mount": "own", "pid": "own", "ipc": "own", "network": "own", "files": "read-only", "capabilities": "none",
    "seccomp": "on",
}  # fmt: skip
"""Measure -> the word with which its report begins if it holds. Landlock is not among them: where mounts are a worker's
own, it guards what is guarded already."""


def level_of(report: Mapping[str, str]) -> Level:
    """The level of one worker, by the report that ``isolation`` made of it."""
    if all(_holds(report, name, word) for name, word in _FULL.items()):
        return Level.FULL
    no_network = _holds(report, "network", "own") or _holds(report, "seccomp", "on")
    no_files = _holds(report, "files", "read-only") or _holds(report, "landlock", "on")
    return Level.PARTIAL if no_network and no_files else Level.NONE


def missing(report: Mapping[str, str]) -> dict[str, str]:
    """The measures that FULL lacks, and what the kernel says of each."""
    return {name: report.get(name, "not tried") for name, word in _FULL.items() if not _holds(report, name, word)}


def _holds(report: Mapping[str, str], name: str, word: str) -> bool:
    return report.get(name, "").startswith(word)


def fix_for(name: str) -> str:
    """What a user can do about a measure that is missing."""
    if name == "seccomp":
        return "use a kernel with CONFIG_SECCOMP_FILTER on x86_64 or aarch64"
    if name == "landlock":
        return "boot a kernel of 6.2 or later with lsm=landlock,…"
    if name == "processes":
        return "delegate a control group with the pids controller"
    if os.geteuid() == 0:
        return "run the container with --privileged, or with --cap-add SYS_ADMIN --security-opt apparmor=unconfined"
    return "sysctl kernel.unprivileged_userns_clone=1 (and kernel.apparmor_restrict_unprivileged_userns=0 on Ubuntu)"


def require(choice: Sandbox, report: Mapping[str, str]) -> None:
    """KernelEvolveError if a worker with this report is not shut in as well as the user's choice demands."""
    level = level_of(report)
    if choice is Sandbox.NONE or level is Level.FULL or (choice is Sandbox.AUTO and level is Level.PARTIAL):
        return
    lacking = missing(report)
    named = ", ".join(f"{name} ({state})" for name, state in lacking.items())
    fix = fix_for(next(iter(lacking)))
    if choice is Sandbox.STRICT:
        raise KernelEvolveError(
            f"candidates are not fully shut in here: {named}", fix=f"{fix}, or be content with --sandbox auto"
        )
    raise KernelEvolveError(
        f"candidates could reach the network or change files of yours here: {named}",
        fix=f"{fix}, or accept that with --sandbox none",
    )


@cache
def probe() -> Mapping[str, str]:
    """What a worker on this machine is shut into, found out by a process that does the same and ends.

    Empty if the attempt itself fails.
    """
    path = json.dumps(module_path())
    with tempfile.TemporaryDirectory(prefix="kernelevolve-probe-") as place:
        try:
            finished = subprocess.run(
                [sys.executable, "-I", "-c", _BOOTSTRAP, path], cwd=place, stdin=subprocess.DEVNULL,
                capture_output=True, text=True, timeout=_PROBE_SECONDS, check=True,
            )  # fmt: skip
            return MappingProxyType({str(name): str(state) for name, state in json.loads(finished.stdout).items()})
        except (OSError, subprocess.SubprocessError, ValueError):
            return MappingProxyType({})


def try_measures() -> None:
    """Shut a child of this process in as a worker, with the working directory as scratch, and print the report."""
    shared = (Path("/tmp"), Path("/dev/shm"))
    policy = IsolationPolicy(scratch=Path.cwd(), hidden=shared, visible=isolation.interpreter_directories())
    groups = task_groups.TaskGroups()
    group = groups.make()
    if child := os.fork():
        os.waitpid(child, 0)
        groups.close()
        return
    joined = group is not None and task_groups.join(group) is not None
    report = isolation.enter_namespaces(policy)
    if joined:
        report["processes"] = task_groups.REPORT
    if grandchild := os.fork():  # A PID namespace begins with the next child.
        os.waitpid(grandchild, 0)
        os._exit(0)
    isolation.arrange_file_system(policy, report)
    isolation.confine(policy, report)
    print(json.dumps(report), flush=True)
    os._exit(0)
