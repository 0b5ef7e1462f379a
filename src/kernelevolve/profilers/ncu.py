"""Counters of an NVIDIA GPU, kernel by kernel (Nsight Compute)."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

from pydantic import BaseModel, ConfigDict, Field

from kernelevolve.languages import Availability
from kernelevolve.profilers.diagnosis import Evidence, Metric
from kernelevolve.profilers.inside import ncu_run
from kernelevolve.profilers.profiler import Findings, ProfilerFailed, Subject
from kernelevolve.workers.isolation import Capability

_PLACES = (Path("/usr/local/cuda/bin/ncu"), Path("/usr/local/bin/ncu"))
_INSTALLED = Path("/opt/nvidia/nsight-compute")
_SECONDS = 150.0
"""For importing torch, compiling the candidate, and every kernel several times."""
_TOP_STALLS, _TOP_RULES = 3, 3


class _Rule(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

    name: str = Field(max_length=200)
    text: str = Field(max_length=400)
    speedup: float


class _Kernel(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

    name: str = Field(max_length=200)
    seconds: float = Field(ge=0)
    shares: dict[Metric, float]
    limits: dict[str, float]
    registers: float
    dram_bytes: float = Field(ge=0)
    stalls: dict[str, float]
    latency: float = Field(ge=0)
    rules: tuple[_Rule, ...]


class _Report(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")

    kernels: tuple[_Kernel, ...] = Field(default=(), max_length=64)
    trouble: str = Field(default="", max_length=500)


class Ncu:
    """Throughput, occupancy, stalls and the tool's own rules."""

    name = "ncu"
    device_types = frozenset({"cuda"})
    languages = None

    def availability(self) -> Availability:
        """Whether Nsight Compute is installed; what the driver lets it count shows when it counts."""
        if _program() is None:
            return Availability(
                ok=False, missing="Nsight Compute (ncu)", fix="apt-get install nsight-compute (from NVIDIA)"
            )
        return Availability(ok=True)

    def profile(self, subject: Subject) -> Findings:
        """The counters of the kernels of one call.

        The worker keeps CAP_SYS_ADMIN, without which the driver gives no counters; it holds no candidate itself and
        starts the tool, which starts a process that does.
        """
        with subject.start(load=False, capabilities=(Capability.SYS_ADMIN,)) as running:
            answer = running.inspect(
                ncu_run.count, timeout=_SECONDS + 150, ncu=str(_program()), source=subject.source,
                training=subject.training, seconds=_SECONDS,
            )  # fmt: skip
        report = _Report.model_validate(answer)
        if report.trouble or not report.kernels:
            raise ProfilerFailed(report.trouble or "no kernel ran")
        return Findings(tuple(self._evidence(report.kernels)))

    def _evidence(self, launches: tuple[_Kernel, ...]) -> Iterator[Evidence]:
        """Each kernel once: what it takes in all its launches, and the counters of its longest."""
        by_name: dict[str, list[_Kernel]] = {}
        for launch in launches:
            by_name.setdefault(launch.name, []).append(launch)
        ranked = sorted(by_name.values(), key=lambda group: -sum(launch.seconds for launch in group))
        for group in ranked:
            longest = max(group, key=lambda launch: launch.seconds)
            seconds = sum(launch.seconds for launch in group)
            said = f"launches looked at: {len(group)}"
            yield self._item(longest, Metric.KERNEL_SECONDS, seconds, "s", said)
            traffic = sum(launch.dram_bytes for launch in group)
            yield self._item(longest, Metric.DRAM_BYTES, traffic, "B", said)
            yield from self._counters(longest)

    def _counters(self, kernel: _Kernel) -> Iterator[Evidence]:
        for metric, share in kernel.shares.items():
            yield self._item(kernel, metric, share, "share")
        if kernel.limits:
            scarcest = min(kernel.limits, key=kernel.limits.__getitem__)
            yield self._item(kernel, Metric.OCCUPANCY_LIMIT, kernel.limits[scarcest], "blocks", scarcest)
        if kernel.registers:
            yield self._item(kernel, Metric.REGISTERS, kernel.registers, "per thread")
        whole = kernel.latency or sum(kernel.stalls.values())
        for reason in sorted(kernel.stalls, key=lambda name: -kernel.stalls[name])[:_TOP_STALLS]:
            cycles = kernel.stalls[reason]
            if cycles > 0 and whole > 0:
                yield self._item(kernel, Metric.STALL_CYCLES, cycles, "per instruction", reason)
                yield self._item(kernel, Metric.STALL_SHARE, min(1.0, cycles / whole), "share", reason)
        for rule in sorted(kernel.rules, key=lambda rule: -rule.speedup)[:_TOP_RULES]:
            yield self._item(kernel, Metric.RULE, rule.speedup, "%", rule.text)

    def _item(self, kernel: _Kernel, metric: Metric, value: float, unit: str, detail: str = "") -> Evidence:
        return Evidence(
            profiler=self.name, metric=metric, value=value, unit=unit, subject=kernel.name, detail=detail
        )  # fmt: skip


def _program() -> Path | None:
    found = shutil.which("ncu")
    installed = sorted(_INSTALLED.glob("*/ncu"), reverse=True)
    places = [*([Path(found)] if found else []), *_PLACES, *installed]
    return next((path for path in places if path.is_file()), None)


PROFILER = Ncu()
