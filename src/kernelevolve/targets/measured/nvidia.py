"""Ceilings of an NVIDIA GPU, measured through torch with CUDA events."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from kernelevolve.targets.target import Ceilings

_SECONDS_EACH = 0.2
_PRODUCTS = (
    ("float64", "float64", 4096), ("float32", "float32", 4096), ("tf32", "float32", 8192), ("float16", "float16", 8192),
    ("bfloat16", "bfloat16", 8192),
)  # fmt: skip
"""Name of the rate, dtype of the operands, size of the square matrices."""


def measure(device: int) -> Ceilings:
    """Bandwidths, matrix product rates and launch latency; a few seconds.

    The best of several runs counts. Buffers are 64 times the L2 cache or an eighth of the free memory, if that is less.
    """
    import torch

    properties = torch.cuda.get_device_properties(device)
    with torch.cuda.device(device):
        free, _ = torch.cuda.mem_get_info()
        words = min(64 * properties.L2_cache_size, free // 8) // 4
        read, copy = _bandwidths(words)
        flops = {name: _product_rate(dtype, size, name == "tf32") for name, dtype, size in _PRODUCTS}
        launch = _launch_seconds()
    return Ceilings(
        device=properties.name, read_bandwidth=read, copy_bandwidth=copy, flops=flops, launch_seconds=launch,
        cache_bytes=properties.L2_cache_size, threads=1,
    )  # fmt: skip


def _bandwidths(words: int) -> tuple[float, float]:
    """Bytes per second of a read and of a copy of that many 4-byte words."""
    import torch

    source, target = torch.ones(words, device="cuda"), torch.empty(words, device="cuda")
    # Which reduction reads fastest differs from chip to chip; both touch every byte once.
    read = 4 * words / min(_best(lambda: torch.sum(source)), _best(lambda: torch.amax(source)))
    return read, 8 * words / _best(lambda: target.copy_(source))


def _product_rate(dtype: str, size: int, tf32: bool) -> float:
    """Of random values: a product of zeros draws less power and runs faster."""
    import torch

    a, b = (torch.randn(size, size, device="cuda").to(getattr(torch, dtype)) for _ in range(2))
    out = torch.empty_like(a)
    with _tf32(tf32):
        return 2.0 * size**3 / _best(lambda: torch.mm(a, b, out=out))


def _launch_seconds() -> float:
    """Wall time from the call to the completion of a kernel on one number: the least of many."""
    import torch

    one = torch.zeros(1, device="cuda")
    times = []
    for _ in range(300):
        torch.cuda.synchronize()
        start = time.perf_counter()
        one.zero_()
        torch.cuda.synchronize()
        times.append(time.perf_counter() - start)
    return min(times)


def _best(call: Callable[[], object]) -> float:
    """The shortest device time of a call, in seconds, of at least five."""
    import torch

    call()
    torch.cuda.synchronize()
    times: list[float] = []
    began = time.perf_counter()
    while len(times) < 5 or time.perf_counter() - began < _SECONDS_EACH:
        start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))  # type: ignore[no-untyped-call]
        start.record()
        call()
        end.record()
        end.synchronize()
        times.append(start.elapsed_time(end) * 1e-3)
    return min(times)


@contextmanager
def _tf32(allowed: bool) -> Iterator[None]:
    """Products of float32 matrices may, or may not, use TensorFloat-32 inside."""
    import torch

    before = torch.backends.cuda.matmul.allow_tf32
    torch.backends.cuda.matmul.allow_tf32 = allowed
    try:
        yield
    finally:
        torch.backends.cuda.matmul.allow_tf32 = before
