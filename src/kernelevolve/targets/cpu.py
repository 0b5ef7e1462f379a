"""The CPU: a first-class target, on which everything runs and is measured."""

from __future__ import annotations

import os
import platform
import re
import time
from functools import lru_cache
from pathlib import Path

from kernelevolve.languages import Availability
from kernelevolve.targets.ceilings import cached_ceilings
from kernelevolve.targets.target import Ceilings

_BUFFER = 1 << 28
"""Bytes streamed to measure bandwidth: far more than any last-level cache a process is likely to have to itself."""
_STREAM = r"""
#include <cstdint>
extern "C" void stream_read(const float* x, float* sink, int64_t n) {
    float total = 0;
    #pragma omp parallel for simd reduction(+ : total)
    for (int64_t i = 0; i < n; i++) total += x[i];
    *sink = total;
}
extern "C" void stream_copy(const float* __restrict x, float* __restrict y, int64_t n) {
    #pragma omp parallel for simd
    for (int64_t i = 0; i < n; i++) y[i] = x[i];
}
"""


class Cpu:
    """The processor of this machine."""

    name = "cpu"
    device_type = "cpu"
    exclusive_compile = True

    def availability(self) -> Availability:
        from kernelevolve.languages.cpp import LANGUAGE

        return LANGUAGE.availability()

    @lru_cache(maxsize=1)  # noqa: B019 - one instance for the life of the process
    def device_name(self) -> str:
        found = re.search(r"model name\s*:\s*(.+)", _read(Path("/proc/cpuinfo")))
        return found.group(1).strip() if found else platform.processor() or "cpu"

    def threads(self) -> int:
        """CPU threads that this process may use: affinity, cut down by a cgroup quota."""
        allowed = len(os.sched_getaffinity(0))
        quota = _read(Path("/sys/fs/cgroup/cpu.max")).split()
        if len(quota) == 2 and quota[0].isdigit():
            allowed = min(allowed, max(1, round(int(quota[0]) / int(quota[1]))))
        return allowed

    def facts(self) -> dict[str, str | int | float]:
        flags = set(_read(Path("/proc/cpuinfo")).partition("flags")[2].partition("\n")[0].split())
        isa = next((name for name in ("avx512f", "avx2", "avx", "sse4_2") if name in flags), platform.machine())
        return {
            "device": self.device_name(),
            "threads": self.threads(),
            "isa": isa,
            "simd_bytes": {"avx512f": 64, "avx2": 32, "avx": 32}.get(isa, 16),
            **{f"{level}_bytes": size for level, size in cache_sizes().items()},
        }

    def ceilings(self) -> Ceilings:
        import torch

        key = {"device": self.device_name(), "threads": str(self.threads()), "torch": torch.__version__}
        return cached_ceilings(key, self._measure)

    def _measure(self) -> Ceilings:
        import torch

        from kernelevolve.languages.cpp import build

        threads = self.threads()
        torch.set_num_threads(threads)
        module = build(_STREAM)
        n = _BUFFER // 4
        source, sink, target = torch.ones(n), torch.zeros(1), torch.zeros(n)
        read = _BUFFER / _best(lambda: module.stream_read(source, sink, n))
        copy = 2 * _BUFFER / _best(lambda: module.stream_copy(source, target, n))
        flops = {}
        for dtype in (torch.float32, torch.float64, torch.bfloat16):
            size = 1536 if dtype is not torch.bfloat16 else 768
            a, b = torch.randn(size, size).to(dtype), torch.randn(size, size).to(dtype)
            flops[str(dtype).removeprefix("torch.")] = 2.0 * size**3 / _best(lambda a=a, b=b: a @ b)
        one = torch.zeros(1)
        return Ceilings(
            device=self.device_name(), read_bandwidth=read, copy_bandwidth=copy, flops=flops,
            launch_seconds=_best(lambda: module.stream_copy(one, sink, 1), repeats=200),
            cache_bytes=max(cache_sizes().values(), default=32 << 20), threads=threads,
        )  # fmt: skip


def cache_sizes() -> dict[str, int]:
    """Bytes of each data or unified cache level that CPU 0 sees: ``{'l1': …, 'l2': …, 'l3': …}``."""
    sizes = {}
    for index in sorted(Path("/sys/devices/system/cpu/cpu0/cache").glob("index*")):
        if _read(index / "type").strip() == "Instruction":
            continue
        text = _read(index / "size").strip()
        if text[:-1].isdigit():
            sizes[f"l{_read(index / 'level').strip()}"] = int(text[:-1]) << {"K": 10, "M": 20}.get(text[-1], 0)
    return sizes


def _best(call: object, repeats: int = 7) -> float:
    assert callable(call)
    call()
    times = []
    for _ in range(repeats):
        start = time.perf_counter()
        call()
        times.append(time.perf_counter() - start)
    return min(times)


def _read(path: Path) -> str:
    try:
        return path.read_text()
    except OSError:
        return ""


TARGET = Cpu()
