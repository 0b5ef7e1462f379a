"""What this machine can compile, run, profile and sandbox, what is missing, and what mends it.

Every probe is quick (no torch import, no compilation of a kernel) and finds something even where it fails.
"""

from __future__ import annotations

import ctypes
import re
import shutil
import sqlite3
import subprocess
import tempfile
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path
from typing import Literal, TypeAlias

from pydantic import BaseModel, ConfigDict, Field

from kernelevolve.errors import KernelEvolveError
from kernelevolve.languages import LANGUAGES, build_cache, cpp
from kernelevolve.languages.toolchain import compute_sanitizer, cuda_toolkit, nvrtc, sanitizer
from kernelevolve.targets import topology
from kernelevolve.workers import sandbox
from kernelevolve.workers.sandbox import Level

_PROBE_SECONDS = 1.0
_FREE_DISK, _SHARED_MEMORY = 2 << 30, 256 << 20

Area: TypeAlias = Literal["compile", "run", "profile", "sandbox", "store"]


class Finding(BaseModel):
    """One thing that was looked at."""

    model_config = ConfigDict(frozen=True)

    name: str
    area: Area
    state: Literal["ok", "limited", "missing"]
    detail: str = Field(description="version, size, or why it is not as it should be")
    fix: str = Field(default="", description="the command or package that mends it; empty if nothing needs mending")


def examine() -> list[Finding]:
    """All findings, area by area. Never raises; each probe takes less than about a second."""
    return [_guarded(area, probe) for area, probes in _PROBES.items() for probe in probes]


def _guarded(area: Area, probe: Callable[[], Finding]) -> Finding:
    try:
        return probe()
    except Exception as error:  # A probe that breaks is a finding, and must not hide the others.
        name = probe.__name__.strip("_").replace("_", " ")
        return Finding(name=name, area=area, state="missing", detail=f"could not be examined: {error}"[:200])


# -- compile ----------------------------------------------------------------------------------------------------------


def _cpp() -> Finding:
    state = LANGUAGES.get("cpp").availability()
    if state.ok and (compiler := cpp.compiler()) is not None and sanitizer.runtime(compiler) is None:
        return Finding(
            name="C++ compiler", area="compile", state="limited",
            detail=f"{state.version}; it has no AddressSanitizer, so that no access to memory is watched",
            fix="apt-get install g++",
        )  # fmt: skip
    if state.ok:
        return Finding(name="C++ compiler", area="compile", state="ok", detail=state.version)
    return Finding(name="C++ compiler", area="compile", state="missing", detail="no kernels for the CPU", fix=state.fix)


def _clang() -> Finding:
    return _program("clang++", "compile", "a second C++ compiler", "apt-get install clang libomp-dev", ["--version"])


def _nvcc() -> Finding:
    compiler = cuda_toolkit.nvcc()
    if compiler is None:
        return Finding(
            name="nvcc", area="compile", state="missing", detail="needed only where NVRTC is missing",
            fix="pip install nvidia-cuda-nvrtc, or install the CUDA toolkit",
        )  # fmt: skip
    return Finding(name="nvcc", area="compile", state="ok", detail=_answer([str(compiler), "--version"], r"release.*"))


def _nvrtc() -> Finding:
    found = nvrtc.version()
    if found is None:
        nvcc = "CUDA kernels are built by nvcc" if cuda_toolkit.nvcc() else "no CUDA kernels without it or nvcc"
        return Finding(
            name="NVRTC", area="compile", state="missing", detail=nvcc, fix="pip install nvidia-cuda-nvrtc"
        )  # fmt: skip
    if not cuda_toolkit.include_directories():
        return Finding(
            name="NVRTC", area="compile", state="limited", detail=f"{found}, without cuda_fp16.h",
            fix="pip install nvidia-cuda-runtime, or install triton or the CUDA toolkit",
        )  # fmt: skip
    return Finding(name="NVRTC", area="compile", state="ok", detail=found)


def _triton() -> Finding:
    state = LANGUAGES.get("triton").availability()
    if not state.ok:
        return Finding(name="Triton", area="compile", state="missing", detail="no Triton kernels", fix=state.fix)
    if cuda_toolkit.ptxas() is None:
        return Finding(
            name="Triton", area="compile", state="limited", detail=f"{state.version}, without ptxas",
            fix="reinstall triton from its wheel",
        )  # fmt: skip
    return Finding(name="Triton", area="compile", state="ok", detail=f"{state.version}, compiles without a GPU too")


# -- run --------------------------------------------------------------------------------------------------------------


def _processor() -> Finding:
    threads, width = topology.usable_threads(), topology.vector_bytes()
    detail = f"{topology.processor_name()}, {threads} threads, vectors of {width} bytes"
    if width >= 32 or topology.architecture() == "aarch64":
        return Finding(name="processor", area="run", state="ok", detail=detail)
    return Finding(name="processor", area="run", state="limited", detail=detail, fix="use a processor with AVX2")


def _torch() -> Finding:
    spec = find_spec("torch")
    if spec is None or spec.origin is None:
        return Finding(name="torch", area="run", state="missing", detail="nothing runs", fix="pip install torch")
    text = (Path(spec.origin).parent / "version.py").read_text()
    cuda = re.search(r"^cuda.*=\s*'([^']+)'", text, re.MULTILINE)
    built = f"built with CUDA {cuda.group(1)}" if cuda else "a build for the CPU"
    return Finding(name="torch", area="run", state="ok", detail=f"{version('torch')}, {built}")


def _gpu() -> Finding:
    try:
        names = _gpu_names()
    except OSError:
        return Finding(
            name="NVIDIA GPU", area="run", state="missing", detail="no NVIDIA driver on this machine",
            fix="run on a machine with one, or use --target cpu",
        )  # fmt: skip
    spec = find_spec("torch")
    text = (Path(spec.origin).parent / "version.py").read_text() if spec is not None and spec.origin else ""
    if not names:
        return Finding(
            name="NVIDIA GPU", area="run", state="missing", detail="a driver, but no GPU", fix="see nvidia-smi"
        )  # fmt: skip
    if not re.search(r"^cuda.*=\s*'", text, re.MULTILINE):
        return Finding(
            name="NVIDIA GPU", area="run", state="limited", detail=f"{names[0]}, but torch has no CUDA",
            fix="pip install --force-reinstall a CUDA build of torch",
        )  # fmt: skip
    return Finding(name="NVIDIA GPU", area="run", state="ok", detail=", ".join(names))


def _gpu_names() -> list[str]:
    """Names of the GPUs by NVML, which opens no context on them. Raises OSError without a driver."""
    nvml = ctypes.CDLL("libnvidia-ml.so.1")
    if nvml.nvmlInit_v2() != 0:
        return []
    try:
        count, names = ctypes.c_uint(), []
        nvml.nvmlDeviceGetCount_v2(ctypes.byref(count))
        for index in range(count.value):
            handle, name = ctypes.c_void_p(), ctypes.create_string_buffer(96)
            if nvml.nvmlDeviceGetHandleByIndex_v2(index, ctypes.byref(handle)) == 0:
                nvml.nvmlDeviceGetName(handle, name, len(name))
                names.append(name.value.decode())
        return names
    finally:
        nvml.nvmlShutdown()


def _interpreter() -> Finding:
    if find_spec("triton") is None:
        return Finding(
            name="Triton interpreter", area="run", state="missing", detail="no Triton kernels on the CPU",
            fix="pip install 'kernelevolve[nvidia]'",
        )  # fmt: skip
    return Finding(
        name="Triton interpreter", area="run", state="limited", detail=LANGUAGES.get("triton").limits["cpu"]
    )  # fmt: skip


def _shared_memory() -> Finding:
    place = Path("/dev/shm")
    if not place.is_dir():
        return Finding(
            name="shared memory", area="run", state="missing", detail="there is no /dev/shm",
            fix="mount -t tmpfs tmpfs /dev/shm",
        )  # fmt: skip
    size = shutil.disk_usage(place).total
    detail = f"{size / 1e9:.1f} GB in /dev/shm"
    if size >= _SHARED_MEMORY:
        return Finding(name="shared memory", area="run", state="ok", detail=detail)
    fix = "run the container with --shm-size=8g"
    return Finding(name="shared memory", area="run", state="limited", detail=detail, fix=fix)


# -- profile ----------------------------------------------------------------------------------------------------------


def _ncu() -> Finding:
    return _program("ncu", "profile", "no GPU counters", "apt-get install nsight-compute (from NVIDIA)", ["--version"])


def _compute_sanitizer() -> Finding:
    name, fix, without = compute_sanitizer.NAME, compute_sanitizer.FIX, "no report on GPU kernels' accesses and races"
    return _program(name, "profile", without, fix, ["--version"], compute_sanitizer.program())


def _perf() -> Finding:
    found = _program("perf", "profile", "no CPU counters", "apt-get install linux-perf", ["--version"])
    if found.state != "ok":
        return found
    counted = _run(["perf", "stat", "-x", ",", "-e", "cycles", "true"])
    if counted.returncode == 0 and re.search(r"^\d+,", counted.stderr, re.MULTILINE):
        return found
    reason = (
        "hardware counters are not supported here" if "not supported" in counted.stderr else "no permission to count"
    )
    fix = "use a machine without virtualised counters" if "not supported" in counted.stderr else (
        "sysctl kernel.perf_event_paranoid=1"
    )  # fmt: skip
    return Finding(name="perf", area="profile", state="limited", detail=f"{found.detail}, but {reason}", fix=fix)


def _valgrind() -> Finding:
    found = _program("valgrind", "profile", "no instruction counts", "apt-get install valgrind", ["--version"])
    if found.state != "ok":
        return found
    detail = f"{found.detail}; it knows no AVX-512"
    return Finding(name="valgrind", area="profile", state="limited", detail=detail, fix="build with -march=x86-64-v3")


# -- sandbox ----------------------------------------------------------------------------------------------------------


def _sandbox() -> Finding:
    report = sandbox.probe()
    level = sandbox.level_of(report)
    if level is Level.FULL:
        detail = "full: own processes, network and mounts, read-only files, no capabilities, few system calls"
        return Finding(name="sandbox", area="sandbox", state="ok", detail=detail)
    missing = sandbox.missing(report)
    detail = f"{level}: without {', '.join(missing)}"
    fix = sandbox.fix_for(next(iter(missing)))
    if level is Level.PARTIAL:
        return Finding(name="sandbox", area="sandbox", state="limited", detail=detail, fix=fix)
    return Finding(
        name="sandbox", area="sandbox", state="missing", detail=f"{detail}; candidates run only with --sandbox none",
        fix=fix,
    )  # fmt: skip


def _namespaces() -> Finding:
    report = sandbox.probe()
    names = ("mount", "pid", "ipc", "network")
    refused = {name: report.get(name, "not tried") for name in names if report.get(name) != "own"}
    if not refused:
        how = "without privilege" if "user" in report else "as root"
        return Finding(name="namespaces", area="sandbox", state="ok", detail=f"{', '.join(names)}, {how}")
    detail = ", ".join(f"{name}: {state}" for name, state in refused.items())
    return Finding(
        name="namespaces", area="sandbox", state="missing", detail=detail, fix=sandbox.fix_for(next(iter(refused)))
    )


def _seccomp() -> Finding:
    return _measure("seccomp", "seccomp", "on", "dangerous system calls are denied", "no filter for system calls")


def _landlock() -> Finding:
    held = sandbox.probe().get("landlock", "").removeprefix("on, ")
    return _measure("Landlock", "landlock", "on", held, "no second lock on files")


def _process_limit() -> Finding:
    held = sandbox.probe().get("processes", "")
    return _measure("process limit", "processes", "at most", held, "counted by the judge only, four times a second")


def _measure(name: str, key: str, word: str, held: str, without: str) -> Finding:
    """One measure of a worker, by what its report says."""
    state = sandbox.probe().get(key, "not tried")
    if state.startswith(word):
        return Finding(name=name, area="sandbox", state="ok", detail=held)
    return Finding(name=name, area="sandbox", state="missing", detail=f"{without} ({state})", fix=sandbox.fix_for(key))


# -- store ------------------------------------------------------------------------------------------------------------


def _sqlite() -> Finding:
    with tempfile.TemporaryDirectory() as place, closing(sqlite3.connect(Path(place) / "probe.sqlite")) as connection:
        mode = connection.execute("PRAGMA journal_mode=WAL").fetchone()[0]
    if mode == "wal":
        return Finding(name="SQLite", area="store", state="ok", detail=f"{sqlite3.sqlite_version}, write-ahead log")
    detail = f"{sqlite3.sqlite_version}, without a write-ahead log ({mode})"
    return Finding(name="SQLite", area="store", state="limited", detail=detail, fix="set TMPDIR to a local file system")


def _disk() -> Finding:
    try:
        place = build_cache.build_directory()
    except KernelEvolveError as error:
        return Finding(name="build cache", area="store", state="missing", detail=error.problem, fix=error.fix)
    free = shutil.disk_usage(place).free
    detail = f"{free / 1e9:.1f} GB free in {place}"
    if free >= _FREE_DISK:
        return Finding(name="build cache", area="store", state="ok", detail=detail)
    fix = f"free some space, or set {build_cache.BUILD_DIRECTORY_VARIABLE} to another disk"
    return Finding(name="build cache", area="store", state="limited", detail=detail, fix=fix)


# -- how things are asked ---------------------------------------------------------------------------------------------


def _program(
    name: str, area: Area, without: str, fix: str, question: Sequence[str], elsewhere: Path | None = None
) -> Finding:
    """Whether a program is there and answers. ``elsewhere`` is where it lies if not on PATH."""
    found = shutil.which(name) or (None if elsewhere is None else str(elsewhere))
    if found is None:
        return Finding(name=name, area=area, state="missing", detail=without, fix=fix)
    answer = _answer([found, *question], r"\d+\.\d+[\w.+-]*")
    if not answer:
        return Finding(
            name=name, area=area, state="limited", detail=f"{found} does not answer", fix=f"reinstall: {fix}"
        )
    return Finding(name=name, area=area, state="ok", detail=answer)


def _answer(command: Sequence[str], pattern: str) -> str:
    """The first match of a pattern in what a command says; '' if there is none or the command fails."""
    finished = _run(command)
    match = re.search(pattern, finished.stdout + finished.stderr) if finished.returncode == 0 else None
    return match.group() if match else ""


def _run(command: Sequence[str]) -> subprocess.CompletedProcess[str]:
    """A finished command; one that cannot be run or takes too long has a return code of its own."""
    try:
        return subprocess.run(
            command, capture_output=True, text=True, errors="replace", timeout=_PROBE_SECONDS, check=False,
            stdin=subprocess.DEVNULL,
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        return subprocess.CompletedProcess(command, 124, "", "no answer within a second")
    except OSError as error:
        return subprocess.CompletedProcess(command, 126, "", str(error))


_PROBES: Mapping[Area, tuple[Callable[[], Finding], ...]] = {
    "compile": (_cpp, _clang, _nvcc, _nvrtc, _triton),
    "run": (_processor, _torch, _gpu, _interpreter, _shared_memory),
    "profile": (_ncu, _compute_sanitizer, _perf, _valgrind),
    "sandbox": (_sandbox, _namespaces, _seccomp, _landlock, _process_limit),
    "store": (_sqlite, _disk),
}
