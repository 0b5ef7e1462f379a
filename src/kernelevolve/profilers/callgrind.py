"""How many instructions a C++ candidate executes, and on which lines (valgrind's callgrind).

The count does not depend on what else the machine does: it is the same whenever it is taken. It is of the candidate's
native calls only, built for AVX2 (valgrind knows no AVX-512) and run with one thread, so it says where instructions
are, and not how long they take.
"""

from __future__ import annotations

import shutil

from pydantic import BaseModel, ConfigDict, Field

from kernelevolve.languages import Availability
from kernelevolve.profilers.diagnosis import Evidence, Metric, Place
from kernelevolve.profilers.inside import counting, recording
from kernelevolve.profilers.profiler import Findings, ProfilerFailed, Subject

_CACHE_LINE = 64
_SECONDS = 60.0
"""For the native calls under valgrind, about 50 times slower than without; compiling them has as long again."""
_LEAST_SHARE = 0.02
"""Lines and functions below are left out."""


class _Line(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")

    source: int = Field(ge=0)
    line: int = Field(ge=1)
    text: str = Field(max_length=200)
    instructions: int = Field(ge=0)


class _Function(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")

    name: str = Field(max_length=200)
    library: str = Field(max_length=200, description="file name of the object that it is in")
    instructions: int = Field(ge=0)


class _Report(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")

    instructions: int = Field(default=0, ge=0)
    line_fetches: int = Field(default=0, ge=0)
    calls: int = Field(default=0, ge=0)
    lines: tuple[_Line, ...] = ()
    functions: tuple[_Function, ...] = ()
    trouble: str = Field(default="", max_length=600)


class Callgrind:
    """Instruction counts by simulation."""

    name = "callgrind"
    device_types = frozenset({"cpu"})
    languages = frozenset({"cpp"})

    def availability(self) -> Availability:
        """Whether valgrind is installed."""
        if shutil.which("valgrind") is None:
            return Availability(ok=False, missing="valgrind", fix="apt-get install valgrind")
        return Availability(ok=True)

    def profile(self, subject: Subject) -> Findings:
        """Instructions in all, those of each line and function that matters, and simulated cache traffic."""
        with subject.start(before=recording.begin) as running:
            answer = running.inspect(
                counting.count, timeout=2 * _SECONDS + subject.call_limit,
                valgrind=str(shutil.which("valgrind")), seconds=_SECONDS,
            )  # fmt: skip
        report = _Report.model_validate(answer)
        if report.trouble:
            raise ProfilerFailed(report.trouble)
        if not report.instructions:
            raise ProfilerFailed("no instruction was counted")
        return Findings(tuple(self._evidence(report)))

    def _evidence(self, report: _Report) -> list[Evidence]:
        found = [
            Evidence(
                profiler=self.name, metric=Metric.INSTRUCTIONS, value=report.instructions, unit="per call",
                detail=f"native calls: {report.calls}; built for AVX2, one thread",
            ),
            Evidence(
                profiler=self.name, metric=Metric.CACHE_LINE_BYTES, value=report.line_fetches * _CACHE_LINE, unit="B",
                detail="read into a simulated first-level data cache",
            ),
        ]  # fmt: skip
        for line in report.lines:
            if line.instructions >= _LEAST_SHARE * report.instructions:
                place = Place(file=f"source {line.source + 1}", line=line.line, text=line.text)
                found.append(self._share(line.instructions, report.instructions, place=place))
        for function in report.functions:
            if function.instructions >= _LEAST_SHARE * report.instructions:
                share = self._share(function.instructions, report.instructions, subject=function.name)
                found.append(share.model_copy(update={"detail": f"{share.detail}, in {function.library}"}))
        return found

    def _share(self, part: int, whole: int, *, subject: str = "", place: Place | None = None) -> Evidence:
        return Evidence(
            profiler=self.name, metric=Metric.INSTRUCTION_SHARE, value=part / whole, unit="share", subject=subject,
            detail=f"{part} instructions", place=place,
        )  # fmt: skip


PROFILER = Callgrind()
