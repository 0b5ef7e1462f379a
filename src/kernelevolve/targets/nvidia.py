"""NVIDIA GPUs through CUDA."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TYPE_CHECKING

from kernelevolve.languages import Availability
from kernelevolve.targets.ceilings import cached_ceilings
from kernelevolve.targets.target import Ceilings

if TYPE_CHECKING:
    import torch

_BUFFER = 1 << 31
"""Bytes streamed to measure bandwidth."""


class Nvidia:
    """The first visible GPU."""

    name = "nvidia"
    device_type = "cuda"
    exclusive_compile = False

    def availability(self) -> Availability:
        import torch

        if torch.version.cuda is None:
            return Availability(
                ok=False, missing="a torch build with CUDA", fix="install a CUDA build of torch, or use --target cpu"
            )
        if not torch.cuda.is_available():
            return Availability(
                ok=False, missing="an NVIDIA GPU with its driver", fix="run where nvidia-smi works, or use --target cpu"
            )
        return Availability(ok=True, version=f"CUDA {torch.version.cuda}")

    def device_name(self) -> str:
        import torch

        return torch.cuda.get_device_name(0)

    def facts(self) -> dict[str, str | int | float]:
        import torch

        p = torch.cuda.get_device_properties(0)
        return {
            "device": p.name,
            "compute_capability": f"{p.major}.{p.minor}",
            "multiprocessors": p.multi_processor_count,
            "l2_bytes": p.L2_cache_size,
            "shared_bytes": getattr(p, "shared_memory_per_block_optin", 49152),
            "warp_size": p.warp_size,
            "memory_bytes": p.total_memory,
        }

    def ceilings(self) -> Ceilings:
        import torch

        key = {"device": self.device_name(), "torch": torch.__version__, "cuda": str(torch.version.cuda)}
        return cached_ceilings(key, self._measure)

    def _measure(self) -> Ceilings:
        import os

        import torch

        n = _BUFFER // 4
        source, target = torch.ones(n, device="cuda"), torch.empty(n, device="cuda")
        read = _BUFFER / _best(lambda: source.sum())
        copy = 2 * _BUFFER / _best(lambda: target.copy_(source))
        del source, target
        return Ceilings(
            device=self.device_name(), read_bandwidth=read, copy_bandwidth=copy, flops=_matmul_rates(),
            launch_seconds=_launch_seconds(), cache_bytes=torch.cuda.get_device_properties(0).L2_cache_size,
            threads=len(os.sched_getaffinity(0)),
        )  # fmt: skip


def _matmul_rates() -> dict[str, float]:
    """Multiply-adds counted as two, per second, of a square product of random values (zeros run faster)."""
    import torch

    rates = {}
    before = torch.backends.cuda.matmul.allow_tf32
    kinds: list[tuple[str, torch.dtype, bool]] = [
        ("float32", torch.float32, False), ("tf32", torch.float32, True), ("float64", torch.float64, False),
        ("float16", torch.float16, False), ("bfloat16", torch.bfloat16, False),
    ]  # fmt: skip
    try:
        for name, dtype, tf32 in kinds:
            size = 8192 if name in ("float16", "bfloat16", "tf32") else 4096
            torch.backends.cuda.matmul.allow_tf32 = tf32
            a, b = (torch.randn(size, size, device="cuda").to(dtype) for _ in range(2))
            rates[name] = 2.0 * size**3 / _best(lambda a=a, b=b: a @ b)
    finally:
        torch.backends.cuda.matmul.allow_tf32 = before
    return rates


def _launch_seconds() -> float:
    """Wall time from call to completion of a kernel that does nothing worth mentioning."""
    import torch

    one = torch.zeros(1, device="cuda")
    times = []
    for _ in range(200):
        torch.cuda.synchronize()
        start = time.perf_counter()
        one.add_(1)
        torch.cuda.synchronize()
        times.append(time.perf_counter() - start)
    return min(times)


def _best(call: Callable[[], object], repeats: int = 10) -> float:
    """Shortest device time of a call, in seconds."""
    import torch

    call()
    times = []
    for _ in range(repeats):
        start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        start.record()
        call()
        end.record()
        torch.cuda.synchronize()
        times.append(start.elapsed_time(end) * 1e-3)
    return min(times)


TARGET = Nvidia()
