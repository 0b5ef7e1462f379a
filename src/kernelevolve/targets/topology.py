"""What the operating system says of the processor: cores and threads that a process may use, caches, vector width."""

from __future__ import annotations

import os
import platform
import re
from collections.abc import Iterator
from pathlib import Path

_CPUS = Path("/sys/devices/system/cpu")
_VECTOR_BYTES = {"avx512f": 64, "avx2": 32, "avx": 32, "asimd": 16}
_REPORTED_EXTENSIONS = (
    "avx512f", "avx512vnni", "avx512_vnni", "avx512_bf16", "avx512_fp16", "amx_bf16", "amx_int8", "avx2", "fma", "f16c",
    "asimd", "sve", "bf16",
)  # fmt: skip


def processor_name() -> str:
    """The model as the kernel gives it, e.g. 'AMD EPYC 9654 96-Core Processor'."""
    found = re.search(r"^(?:model name|Processor)\s*:\s*(.+)$", _read(Path("/proc/cpuinfo")), re.MULTILINE)
    return found.group(1).strip() if found else platform.processor() or platform.machine()


def extensions() -> list[str]:
    """Instruction set extensions that matter to kernels, in the kernel's spelling."""
    found = re.search(r"^(?:flags|Features)\s*:\s*(.+)$", _read(Path("/proc/cpuinfo")), re.MULTILINE)
    have = set(found.group(1).split()) if found else set()
    return [name for name in _REPORTED_EXTENSIONS if name in have]


def vector_bytes() -> int:
    """Width of the widest general vector register; 16 if nothing wider is known."""
    return max((width for name, width in _VECTOR_BYTES.items() if name in extensions()), default=16)


def architecture() -> str:
    """'x86_64', 'aarch64' …"""
    return platform.machine()


def allowed_cpus() -> list[int]:
    """Logical processors in this process's affinity mask."""
    return sorted(os.sched_getaffinity(0))


def physical_cores() -> int:
    """Cores among the allowed logical processors: siblings of simultaneous multithreading count once."""
    cores = {
        (_read(_CPUS / f"cpu{n}/topology/physical_package_id"), _read(_CPUS / f"cpu{n}/topology/core_id"))
        for n in allowed_cpus()
    }
    return len(cores) if ("", "") not in cores else len(allowed_cpus())


def usable_threads() -> int:
    """Threads with which a program should run: one a physical core, less if OMP_NUM_THREADS or a cgroup says so."""
    limits = [float(physical_cores())]
    wanted = os.environ.get("OMP_NUM_THREADS", "")
    if wanted.isdigit() and int(wanted) > 0:
        limits.append(float(wanted))
    quota = cpu_quota()
    if quota is not None:
        limits.append(quota)
    return max(1, int(min(limits)))


def cpu_quota(root: Path = Path("/sys/fs/cgroup"), membership: Path = Path("/proc/self/cgroup")) -> float | None:
    """Processors that the tightest cgroup round this process grants it (versions 1 and 2); None without a limit."""
    quotas = []
    for line in _read(membership).splitlines():
        _, controllers, path = (*line.split(":", 2), "", "")[:3]
        if controllers == "":
            quotas += [_ratio(*_read(place / "cpu.max").split()[:2]) for place in _upwards(root, path)]
        elif "cpu" in controllers.split(","):
            quotas += [
                _ratio(_read(place / "cpu.cfs_quota_us").strip(), _read(place / "cpu.cfs_period_us").strip())
                for place in _upwards(root / controllers, path)
            ]
    return min((quota for quota in quotas if quota is not None), default=None)


def _upwards(base: Path, path: str) -> Iterator[Path]:
    """The directory of a cgroup and those above it; inside a container the path may not exist, the base does."""
    place = base / path.lstrip("/")
    while place != base and base in place.parents:
        yield place
        place = place.parent
    yield base


def _ratio(quota: str = "", period: str = "") -> float | None:
    return int(quota) / int(period) if quota.isdigit() and period.isdigit() and int(period) > 0 else None


class OtherWork:
    """How busy the processors are with other processes, from its making until it is asked."""

    def __init__(self) -> None:
        self._began = self._seconds()

    def share(self) -> float:
        """Processor time of other processes, as a share of what all processors had in the meantime (0 to 1)."""
        other, total = (now - before for now, before in zip(self._seconds(), self._began, strict=True))
        return max(0.0, other) / total if total > 0 else 0.0

    @staticmethod
    def _seconds() -> tuple[float, float]:
        """Busy seconds of everybody else, and all seconds, idle ones included, since the machine started."""
        fields = _read(Path("/proc/stat")).partition("\n")[0].split()[1:9]
        ticks = [int(field) for field in fields] or [0] * 8
        idle = ticks[3] + ticks[4]
        own = os.times()
        per_second = os.sysconf("SC_CLK_TCK")
        return (sum(ticks) - idle) / per_second - own.user - own.system, sum(ticks) / per_second


def cache_bytes() -> dict[str, int]:
    """Bytes of one data or unified cache of each level, as the first allowed processor sees it: {'l1': …, 'l3': …}."""
    return {f"l{level}": size for level, size, _ in _caches(allowed_cpus()[0])}


def last_level_bytes() -> int:
    """Bytes of all last-level caches that the allowed processors have together; 0 if nothing is known."""
    caches = {shared: (level, size) for n in allowed_cpus() for level, size, shared in _caches(n)}
    last = max((level for level, _ in caches.values()), default=0)
    return sum(size for level, size in caches.values() if level == last)


def _caches(cpu: int) -> list[tuple[int, int, str]]:
    """Level, bytes and a name of each cache that holds data: the name is the same for all processors that share it."""
    found = []
    for index in sorted((_CPUS / f"cpu{cpu}/cache").glob("index*")):
        level, size = _read(index / "level").strip(), re.fullmatch(r"(\d+)([KMG]?)", _read(index / "size").strip())
        if _read(index / "type").strip() != "Instruction" and level.isdigit() and size:
            scale = {"": 0, "K": 10, "M": 20, "G": 30}[size[2]]
            found.append((int(level), int(size[1]) << scale, f"{level}:{_read(index / 'shared_cpu_list').strip()}"))
    return found


def _read(path: Path) -> str:
    try:
        return path.read_text()
    except OSError:
        return ""
