"""Ceilings of this machine's processor, measured with all threads that a program may use."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from kernelevolve.languages import cpp
from kernelevolve.targets import topology
from kernelevolve.targets.target import Ceilings

_SMALLEST_BUFFER = 1 << 28
_SECONDS_EACH = 0.4
_SOURCE = r"""
#include <cstdint>
#include <cstring>
extern "C" {
// An exclusive or has a latency of one cycle, so that one chain of them per vector does not hold up the loads.
uint64_t stream_read(const int64_t* __restrict x, int64_t n) {
  uint64_t sum = 0;
  #pragma omp parallel for simd reduction(^ : sum) schedule(static)
  for (int64_t i = 0; i < n; i++) sum ^= static_cast<uint64_t>(x[i]);
  return sum;
}
// Plain stores read the line that they write; memcpy of large pieces does not (it streams).
void stream_copy(const int64_t* __restrict x, int64_t* __restrict y, int64_t n) {
  #pragma omp parallel for simd schedule(static)
  for (int64_t i = 0; i < n; i++) y[i] = x[i];
}
void piecewise_memcpy(const int64_t* __restrict x, int64_t* __restrict y, int64_t n, int64_t pieces) {
  #pragma omp parallel for schedule(static)
  for (int64_t p = 0; p < pieces; p++) {
    const int64_t begin = n * p / pieces, end = n * (p + 1) / pieces;
    std::memcpy(y + begin, x + begin, (end - begin) * sizeof(int64_t));
  }
}
void nothing() {}
}
"""


def measure() -> Ceilings:
    """Bandwidths, matrix product rates and call overhead; about three seconds.

    The best of several runs counts: what disturbs a run can only slow it down. Raises MissingTarget without a compiler.
    """
    import torch

    threads = topology.usable_threads()
    module = cpp.build(_SOURCE)
    cache = topology.last_level_bytes() or 32 << 20
    words = max(_SMALLEST_BUFFER, 4 * cache) // 8
    with _threads(threads):
        source, target = torch.ones(words, dtype=torch.int64), torch.zeros(words, dtype=torch.int64)
        read = 8 * words / _best(lambda: module.stream_read(source, words))
        copies = (
            lambda: module.stream_copy(source, target, words),
            lambda: module.piecewise_memcpy(source, target, words, threads),
        )
        copy = 16 * words / min(map(_best, copies))
        flops = {
            name: _product_rate(getattr(torch, name), size)
            for name, size in (("float32", 1024), ("float64", 768), ("bfloat16", 1024), ("float16", 512))
        }
    # Nothing forbids a program to compute 16-bit values in float32.
    flops = {name: max(rate, flops["float32"]) if "16" in name else rate for name, rate in flops.items()}
    return Ceilings(
        device=topology.processor_name(), read_bandwidth=read, copy_bandwidth=copy, flops=flops,
        launch_seconds=_best(module.nothing, 0.01), cache_bytes=cache, threads=threads,
    )  # fmt: skip


def _product_rate(dtype: object, size: int) -> float:
    import torch

    a, b = (torch.randn(size, size).to(dtype) for _ in range(2))  # type: ignore[call-overload]
    return 2.0 * size**3 / _best(lambda: torch.mm(a, b))


def _best(call: Callable[[], object], seconds: float = _SECONDS_EACH) -> float:
    """The shortest of the calls that fit into ``seconds``, three at least."""
    call()
    times: list[float] = []
    began = time.perf_counter()
    while len(times) < 3 or time.perf_counter() - began < seconds:
        start = time.perf_counter()
        call()
        times.append(time.perf_counter() - start)
    return min(times)


@contextmanager
def _threads(count: int) -> Iterator[None]:
    """torch, and with it OpenMP, uses ``count`` threads inside."""
    import torch

    before = torch.get_num_threads()
    torch.set_num_threads(count)
    try:
        yield
    finally:
        torch.set_num_threads(before)
