"""torch's own profiler round calls of a candidate, inside its worker."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from typing import Any

import torch
from torch._C._autograd import DeviceType
from torch.profiler import ProfilerActivity, profile, record_function

from kernelevolve.profilers.profiler import BINDING, INSTANCE
from kernelevolve.workers.site import Site

_CALL = "kernelevolve::call"
_MOST_NAMES, _NAME_LIMIT = 25, 200
_MICROSECOND = 1e-6


def trace(site: Site, times: int) -> dict[str, Any]:
    """Probe: what ``times`` calls consist of, on the host and on the device. Seconds are of all calls together."""
    on_gpu = site.device.torch_device.type == "cuda"
    activities = [ProfilerActivity.CPU, *([ProfilerActivity.CUDA] if on_gpu else [])]
    with profile(activities=activities):  # The first one sets the profiler up, which takes its time.
        site.call(INSTANCE, BINDING)
    with profile(activities=activities) as profiler:
        for _ in range(times):
            with record_function(_CALL):
                site.call(INSTANCE, BINDING)
    return summarise(profiler.events(), times)


def summarise(events: Iterable[Any], times: int) -> dict[str, Any]:
    """What events of a trace add up to: calls, what they call directly, and kernels."""
    calls, direct, kernels = 0.0, defaultdict(list), defaultdict(list)
    spans: list[tuple[float, float]] = []
    for event in events:
        seconds = (event.time_range.end - event.time_range.start) * _MICROSECOND
        if event.device_type == DeviceType.CUDA:
            if not getattr(event, "is_user_annotation", False) and event.name != _CALL:
                kernels[event.name].append(seconds)
                spans.append((event.time_range.start, event.time_range.end))
        elif event.name == _CALL:
            calls += seconds
        elif event.cpu_parent is not None and event.cpu_parent.name == _CALL:
            direct[event.name].append(seconds)
    return {
        "times": times,
        "seconds": calls,
        "operations": _ranked(direct),
        "operation_count": sum(map(len, direct.values())),
        "operation_seconds": sum(map(sum, direct.values())),
        "kernels": _ranked(kernels),
        "kernel_count": sum(map(len, kernels.values())),
        "busy_seconds": _union(spans) * _MICROSECOND,
        "threads": torch.get_num_threads(),
    }


def _ranked(found: dict[str, list[float]]) -> list[dict[str, Any]]:
    entries = [{"name": n[:_NAME_LIMIT], "count": len(t), "seconds": sum(t)} for n, t in found.items()]
    return sorted(entries, key=lambda entry: -float(entry["seconds"]))[:_MOST_NAMES]


def _union(spans: list[tuple[float, float]]) -> float:
    """Length of the time in which at least one of them runs."""
    total, until = 0.0, float("-inf")
    for start, end in sorted(spans):
        total += max(0.0, end - max(start, until))
        until = max(until, end)
    return total
