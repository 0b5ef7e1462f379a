"""Registers, spills and shared memory of a candidate's GPU kernels, as its compilers report them (ptxas -v)."""

from __future__ import annotations

from collections.abc import Iterator

from pydantic import BaseModel, ConfigDict, Field

from kernelevolve.languages import Availability
from kernelevolve.languages.toolchain.resources import KernelResources
from kernelevolve.profilers.diagnosis import Evidence, Metric
from kernelevolve.profilers.inside import resources
from kernelevolve.profilers.profiler import Findings, ProfilerFailed, Subject


class _Report(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")

    kernels: tuple[KernelResources, ...] = Field(max_length=64)


class CompilerResources:
    """Compiled, not run: it needs no counters."""

    name = "compiler-resources"
    device_types = frozenset({"cuda"})
    languages = frozenset({"cuda", "triton"})

    def availability(self) -> Availability:
        """Always there: a candidate that runs has been compiled."""
        return Availability(ok=True)

    def profile(self, subject: Subject) -> Findings:
        """Three figures a kernel."""
        with subject.start() as running:
            report = _Report.model_validate(running.inspect(resources.read, timeout=60))
        if not report.kernels:
            raise ProfilerFailed("its compilers left no kernel that can be read")
        return Findings(tuple(item for kernel in report.kernels for item in self._evidence(kernel)))

    def _evidence(self, kernel: KernelResources) -> Iterator[Evidence]:
        spilled = kernel.spill_store_bytes + kernel.spill_load_bytes
        figures = (
            (Metric.REGISTERS, kernel.registers, "per thread"),
            (Metric.SPILL_BYTES, spilled, "B per thread"),
            (Metric.SHARED_BYTES, kernel.shared_bytes, "B"),
        )
        for metric, value, unit in figures:
            yield Evidence(
                profiler=self.name, metric=metric, value=value, unit=unit, subject=kernel.kernel[:200],
                detail=f"compiled for {kernel.arch}",
            )  # fmt: skip


PROFILER = CompilerResources()
