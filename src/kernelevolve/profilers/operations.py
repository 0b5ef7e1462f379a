"""What a call consists of: operations and native functions on the host, kernels on the device (torch.profiler).

The profiler adds about a microsecond to every operation, so shares are to be read, and times only where they are long.
"""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict, Field

from kernelevolve.languages import Availability
from kernelevolve.profilers.diagnosis import Evidence, Metric
from kernelevolve.profilers.inside import recording, tracing
from kernelevolve.profilers.profiler import Findings, ProfilerFailed, Subject

_SECONDS = 0.5
_MOST_CALLS = 20
_LEAST_SHARE = 0.02
"""Operations and kernels below are left out."""
_OVERHEAD = 60.0
"""Seconds for the profiler itself: setting it up and reading its events."""


class _Named(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

    name: str = Field(max_length=200)
    count: int = Field(ge=1)
    seconds: float = Field(ge=0)


class _Report(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

    times: int = Field(ge=1)
    seconds: float = Field(ge=0)
    operations: tuple[_Named, ...]
    operation_count: int = Field(ge=0)
    operation_seconds: float = Field(ge=0)
    kernels: tuple[_Named, ...]
    kernel_count: int = Field(ge=0)
    busy_seconds: float = Field(ge=0)
    threads: int = Field(ge=1)


class Operations:
    """Launch counts and shares of the time."""

    name = "operations"
    device_types = frozenset({"cpu", "cuda"})
    languages = None

    def availability(self) -> Availability:
        """Always there: it comes with torch."""
        return Availability(ok=True)

    def profile(self, subject: Subject) -> Findings:
        """Counts and shares of the operations that the candidate calls directly, and of the kernels that ran."""
        times = max(1, min(_MOST_CALLS, int(_SECONDS / max(subject.call_seconds, 1e-6))))
        patience = _OVERHEAD + subject.call_limit * (times + 1)
        with subject.start(before=recording.begin) as running:
            report = _Report.model_validate(running.inspect(tracing.trace, timeout=patience, times=times))
        if not report.seconds:
            raise ProfilerFailed("the profiler saw no call")
        return Findings(tuple(self._evidence(report)))

    def _evidence(self, report: _Report) -> list[Evidence]:
        times, detail = report.times, f"mean of {report.times} calls under the profiler"

        def item(metric: Metric, value: float, unit: str, subject: str = "", said: str = detail) -> Evidence:
            name = subject.removeprefix(recording.NATIVE)
            return Evidence(profiler=self.name, metric=metric, value=value, unit=unit, subject=name, detail=said)

        found = [
            item(Metric.CALL_SECONDS, report.seconds / times, "s"),
            item(Metric.OPERATIONS, report.operation_count / times, "per call"),
        ]
        for operation in report.operations:
            share = min(1.0, operation.seconds / report.seconds)
            if share >= _LEAST_SHARE:
                kind = "native function" if operation.name.startswith(recording.NATIVE) else "operation"
                said = f"{kind}, {operation.count / times:g} a call"
                found.append(item(Metric.OPERATION_SHARE, share, "share", operation.name, said))
        if not report.kernels:
            outside = max(0.0, 1 - report.operation_seconds / report.seconds)
            return [*found, item(Metric.HOST_SHARE, outside, "share")]
        found += [
            item(Metric.KERNEL_LAUNCHES, report.kernel_count / times, "per call"),
            item(Metric.DEVICE_BUSY_SHARE, min(1.0, report.busy_seconds / report.seconds), "share"),
        ]
        for kernel in report.kernels:
            share = min(1.0, kernel.seconds / report.busy_seconds) if report.busy_seconds else 0.0
            if share >= _LEAST_SHARE:
                said = f"{kernel.count / times:g} a call"
                found += [
                    item(Metric.KERNEL_SHARE, share, "share", kernel.name, said),
                    item(Metric.KERNEL_SECONDS, kernel.seconds / kernel.count, "s", kernel.name, said),
                ]
        return found


PROFILER = Operations()
