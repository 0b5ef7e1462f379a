"""Measurement: the times of one evaluation put together, with what they were taken under."""

from __future__ import annotations

import os
import platform
from collections.abc import Mapping, Sequence

import torch

from kernelevolve.judge.bench import Bench
from kernelevolve.judge.statistics import combine, noise_floor, speedup
from kernelevolve.judge.verdict import Measurement, Samples, Speedup

CANDIDATE = "candidate"


def assemble(bench: Bench, samples: Sequence[Samples], twins: Mapping[str, str]) -> Measurement:
    """Speed-ups over every baseline that was timed on all workloads, for every clock; and the environment.

    ``twins`` maps the name of a second run of a baseline to that baseline: their difference is the noise floor.
    """
    by_key = {(s.program, s.workload, s.clock): s for s in samples}
    workloads = list(dict.fromkeys(s.workload for s in samples))
    clocks = list(dict.fromkeys(s.clock for s in samples))
    speedups: list[Speedup] = []
    for name in bench.baseline_names:
        for clock in clocks:
            if all((name, workload, clock) in by_key for workload in workloads):
                parts = [
                    speedup(by_key[name, workload, clock], by_key[CANDIDATE, workload, clock]) for workload in workloads
                ]
                speedups.append(combine(parts))
    environment = describe_environment(bench)
    floors = [
        noise_floor(by_key[baseline, workload, clock], by_key[twin, workload, clock])
        for twin, baseline in twins.items()
        for workload in workloads
        for clock in clocks
        if (twin, workload, clock) in by_key and (baseline, workload, clock) in by_key
    ]
    if floors:
        environment["noise_floor"] = f"{max(floors):.5f}"
        environment["win_margin"] = f"{max(bench.settings.least_margin, *floors):.5f}"
    return Measurement(samples=tuple(samples), speedups=tuple(speedups), environment=environment)


def describe_environment(bench: Bench) -> dict[str, str]:
    """Device, threads, versions, load and isolation: what a reader needs to judge the times by."""
    environment = {
        "device": bench.ceilings.device,
        "threads": str(bench.threads),
        "torch": torch.__version__,
        "python": platform.python_version(),
        "system": platform.platform(),
        "load": f"{os.getloadavg()[0]:.2f}",
        "cache_flush_bytes": str(2 * bench.ceilings.cache_bytes),
        "float32_matmul": "highest, no TF32",
    }
    environment |= {f"isolation.{name}": state for name, state in bench.isolation.items()}
    return environment


def wins(measurement: Measurement) -> bool:
    """True if the candidate beats every baseline by more than noise: all intervals lie above 1 plus the margin.

    Only a promotion measures the margin; without one nothing is a win.
    """
    margin = measurement.environment.get("win_margin")
    if margin is None or not measurement.speedups:
        return False
    return all(s.low > 1 + float(margin) for s in measurement.speedups)
