"""Measurement: the times of one evaluation put together, with what they were taken under."""

from __future__ import annotations

import os
import platform
from collections.abc import Mapping, Sequence

import torch

from kernelevolve.judge.bench import Bench
from kernelevolve.judge.statistics import combine, noise_floors, speedup
from kernelevolve.judge.verdict import Measurement, Samples, Speedup

CANDIDATE = "candidate"


def assemble(bench: Bench, samples: Sequence[Samples], circumstances: Mapping[str, str]) -> Measurement:
    """Speed-ups over every baseline that was timed on all workloads, for every clock; and the environment.

    ``circumstances`` are what else is to be known of the session. The noise floor is the difference between a baseline
    and its second run, if there was one; a win is measured against it.
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
    environment = describe_environment(bench) | dict(circumstances)
    return Measurement(
        samples=tuple(samples), speedups=tuple(speedups), noise_floors=noise_floors(samples),
        noise_at_start={} if bench.noise is None else bench.noise.floors, environment=environment,
    )  # fmt: skip


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
    if bench.noise is not None:
        environment |= bench.noise.environment
    environment |= {f"isolation.{name}": state for name, state in bench.workers.isolation.items()}
    return environment
