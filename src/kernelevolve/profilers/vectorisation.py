"""Which loops of a C++ candidate became vector code, and the compiler's reasons for those that did not (g++)."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict, Field

from kernelevolve.languages import Availability, cpp
from kernelevolve.languages.build_cache import run_compiler
from kernelevolve.profilers.diagnosis import IN_ORDER, Evidence, Metric, Place
from kernelevolve.profilers.inside import recording, remarks
from kernelevolve.profilers.profiler import Findings, ProfilerFailed, Subject


class _Loop(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")

    line: int = Field(ge=1)
    vector_bytes: int = Field(ge=0, le=1024)
    in_order: bool
    reason: str = Field(max_length=200)
    source: int = Field(ge=0)
    last: int = Field(ge=1)
    text: str = Field(max_length=200)


class _Report(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")

    loops: tuple[_Loop, ...] = ()
    trouble: str = Field(default="", max_length=600)


class Vectorisation:
    """Compiler remarks, by a second compilation with the candidate's own flags."""

    name = "vectorisation"
    device_types = frozenset({"cpu"})
    languages = frozenset({"cpp"})

    def availability(self) -> Availability:
        """Whether the C++ compiler is g++: clang words its remarks otherwise."""
        found = cpp.compiler()
        if found is None:
            return Availability(ok=False, missing="a C++ compiler", fix="apt-get install g++")
        if "Free Software Foundation" not in run_compiler([found, "--version"]):
            return Availability(ok=False, missing=f"remarks of g++ ({found} is another compiler)", fix="set CXX=g++")
        return Availability(ok=True)

    def profile(self, subject: Subject) -> Findings:
        """One piece of evidence a loop."""
        with subject.start(before=recording.begin) as running:
            report = _Report.model_validate(running.inspect(remarks.remarks, timeout=60))
        if report.trouble:
            raise ProfilerFailed(f"the compiler refused the source: {report.trouble.splitlines()[0]}")
        if not report.loops:
            raise ProfilerFailed("the compiler says nothing of its loops")
        return Findings(tuple(map(self._evidence, report.loops)))

    def _evidence(self, loop: _Loop) -> Evidence:
        return Evidence(
            profiler=self.name,
            metric=Metric.LOOP_VECTORISED if loop.vector_bytes else Metric.LOOP_NOT_VECTORISED,
            value=loop.vector_bytes,
            unit="B",
            detail=IN_ORDER if loop.vector_bytes and loop.in_order else loop.reason,
            place=Place(file=f"source {loop.source + 1}", line=loop.line, last=loop.last, text=loop.text),
        )


PROFILER = Vectorisation()
