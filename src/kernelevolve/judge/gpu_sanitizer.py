"""compute-sanitizer at promotion: the candidate once more under each of its tools, side by side in fresh workers.

The worker holds no candidate. It starts the sanitizer, and that starts the process with the candidate, behind the same
walls and one more (``workers.sanitized_program``). What the candidate prints and what its process claims to have called
is told in words only; a verdict follows from the sanitizer's log and from nothing else.

Like every memory check it finds mistakes and not malice: the sanitizer's own code lies in the candidate's process.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

import torch
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from kernelevolve.errors import KernelEvolveError
from kernelevolve.judge.bench import Bench
from kernelevolve.judge.cases import CaseBook, derived_seed
from kernelevolve.judge.compute_sanitizer_report import errors_counted, read_report, trouble_in
from kernelevolve.judge.named_blocks import named_blocks
from kernelevolve.judge.rejection import Rejected
from kernelevolve.judge.verdict import Stage, VerdictKind
from kernelevolve.judge.worker_factory import temporary_directories
from kernelevolve.languages.toolchain import compute_sanitizer
from kernelevolve.languages.toolchain.compute_sanitizer import NAME, Tool
from kernelevolve.problems import Role
from kernelevolve.workers import messages, sanitized
from kernelevolve.workers.handle import WorkerFailure
from kernelevolve.workers.layout import Layout, write_all
from kernelevolve.workers.sanitized_program import PLAN_FILE, Case, Plan
from kernelevolve.workers.wire import REPLY_LIMIT, WireViolation

PURPOSE = "compute_sanitizer"
"""From which the seeds of its inputs are derived."""
_LARGEST_BYTES = 256 << 20
"""Inputs and weights of a workload; each access takes a hundred times as long where races are looked for."""
_LEAST_SECONDS = 2.0
"""For the calls under a tool, however little is allowed: the first may have to compile."""
_START_SECONDS = 30.0
"""For a sanitizer and a Python under it to start, with torch; some 5 s where the machine is idle."""
_MARGIN_SECONDS = 10.0
"""For the worker to start, and to answer after the tool has ended."""


@dataclass(slots=True)
class Sanitized:
    """What came of it, for a candidate that was not found out."""

    tools: list[str] = field(default_factory=list)
    """Those that ran to their end."""
    notes: list[str] = field(default_factory=list)
    """Whole sentences on what was not watched."""

    @property
    def summary(self) -> str:
        """A few words for the environment of the measurement; '' if nothing was watched."""
        return f"{NAME} ({', '.join(self.tools)})" if self.tools else ""

    def missed(self, tool: str, reason: str) -> None:
        """Note that one tool, or with '' the whole of it, watched nothing."""
        self.notes.append(f"memory: {NAME}{f' {tool}' * bool(tool)} did not run: {' '.join(reason.split())}")

    def add(self, other: Sanitized) -> None:
        """What came of another tool."""
        self.tools += other.tools
        self.notes += other.notes


class _Progress(BaseModel):
    """One line that the candidate's process wrote. Not to be trusted."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

    called: str = Field(default="", max_length=200)
    failed: str = Field(default="", max_length=400)
    unguarded: str = Field(default="", max_length=400)


class _Answer(BaseModel):
    """What ``workers.sanitized.watch`` reports."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    log: str = Field(max_length=REPLY_LIMIT)
    output: str = Field(max_length=REPLY_LIMIT)
    progress: str = Field(max_length=REPLY_LIMIT)
    code: int | None
    late: bool

    def notes(self) -> list[_Progress]:
        """Its progress; lines that are none are left out."""
        found = []
        for line in self.progress.splitlines():
            try:
                found.append(_Progress.model_validate_json(line))
            except ValidationError:
                continue
        return found


def sanitize(bench: Bench, source: str, book: CaseBook) -> Sanitized:
    """Call the program ``source`` under every tool.

    Raises Rejected with ``wrong`` for the first finding. A tool that is missing or does not work here is noted only.
    """
    found = Sanitized()
    sanitizer = compute_sanitizer.program()
    if sanitizer is None:
        found.missed("", f"it is not installed ({compute_sanitizer.FIX})")
        return found
    place = bench.workers.make_place("sanitized-")
    try:
        with bench.lock.working():
            _Examination(bench, source, place, sanitizer, found).run(book)
    finally:
        bench.workers.clean(place)
    return found


class _Examination:
    """One program under all tools, with files that they share: inputs, and what has been built."""

    def __init__(self, bench: Bench, source: str, place: Path, sanitizer: Path, found: Sanitized) -> None:
        self._bench, self._source, self._place, self._sanitizer, self._found = bench, source, place, sanitizer, found
        self._report = place / "report"
        self._blocks: dict[int, list[str]] = {}
        self._expected: list[str] = []
        """Workloads that are to be called."""

    def run(self, book: CaseBook) -> None:
        """Raises Rejected."""
        self._report.mkdir()
        self._write(book)
        if not self._expected:
            return
        # Each spends most of its time on starting, on one processor.
        with ThreadPoolExecutor(len(Tool)) as pool:
            for part in pool.map(self._under, Tool):
                self._found.add(part)

    def _under(self, tool: Tool) -> Sanitized:
        """What came of one tool. Raises Rejected."""
        found = Sanitized()
        try:
            self._judge(tool, self._watch(tool), found)
        except KernelEvolveError as reason:
            found.missed(tool, reason.problem)
        except (WorkerFailure, WireViolation, ValidationError) as failure:
            found.missed(tool, str(failure).splitlines()[0])
        return found

    def _write(self, book: CaseBook) -> None:
        """The plan and the workloads that are not too large, the smallest first."""
        bench, sized, too_large = self._bench, list[tuple[int, str, str]](), list[str]()
        for index, workload in enumerate(bench.workloads(*Role)):
            init_inputs, weights, inputs = bench.arguments(workload, derived_seed(book.seed, workload, PURPOSE))
            blocks = named_blocks(weights, inputs)
            size = sum(each * len(names) for each, names in blocks.items())
            if size > _LARGEST_BYTES:
                too_large.append(workload.name)
                continue
            file = f"case-{index}.pt"
            torch.save(_case(init_inputs, weights, inputs), self._report / file)
            sized.append((size, workload.name, file))
            for each, names in blocks.items():
                known = self._blocks.setdefault(each, [])
                known += [name for name in names if name not in known]
        if too_large:
            self._found.notes.append(f"memory: these workloads are too large for {NAME}: {', '.join(too_large)}")
        cases = tuple((name, file) for _, name, file in sorted(sized))
        self._expected = [name for name, _ in cases]
        plan = Plan(
            self._source, bench.target.device_type, bench.threads, bench.instance.training,
            bench.instance.parameter_names, tuple(map(str, temporary_directories(shared_memory=True))), cases,
        )  # fmt: skip
        torch.save(plan, self._report / PLAN_FILE)

    def _watch(self, tool: Tool) -> _Answer:
        """What a worker says of a run under one tool. Raises what a worker raises."""
        settings = self._bench.settings
        limit = _START_SECONDS + settings.compile_seconds + max(settings.memory_check_seconds, _LEAST_SECONDS)
        session = self._bench.workers.open_starter(self._place, self._report, self._sanitizer.parent.resolve())
        try:
            arguments = {
                "sanitizer": str(self._sanitizer), "tool": tool.value, "report": str(self._report),
                "seconds": settings.memory_check_seconds, "limit": limit,
            }  # fmt: skip
            reply = session.handle.ask(messages.Inspect(sanitized.watch, arguments), limit + _MARGIN_SECONDS).reply
        finally:
            session.close()
        assert isinstance(reply, messages.Inspected)
        return _Answer.model_validate(reply.report)

    def _judge(self, tool: Tool, answer: _Answer, found: Sanitized) -> None:
        """Raises Rejected for a finding about memory; writes down whether the tool came to its end otherwise.

        What is said of races and barriers is a suspicion: asynchronous copies and barriers in memory, by which kernels
        for this hardware synchronise, are not always understood, and no good kernel may be refused.
        """
        report, notes = read_report(answer.log, self._source, self._blocks), answer.notes()
        if report is not None and report.of_memory:
            sentence = f"{report.sentence} ({NAME} {tool})"
            raise Rejected(VerdictKind.WRONG, Stage.INTEGRITY, sentence, report.detail)
        called = [note.called for note in notes if note.called]
        if report is not None:
            found.notes.append(f"memory: {NAME} {tool} suspects: {report.sentence}")
        reason = _unfinished(answer, notes)
        if reason and not called:
            found.missed(tool, reason)
            return
        if not reason and len(called) < len(self._expected):
            reason = "the time for it was up"
        if reason or (report is None and errors_counted(answer.log)):
            words = reason or "it counts errors that are not understood"
            found.notes.append(f"memory: {NAME} {tool} watched {', '.join(called)} only: {words}")
        found.tools.append(tool.value)


def _unfinished(answer: _Answer, notes: Sequence[_Progress]) -> str:
    """Why a run says nothing of some workload; '' if it came to its end."""
    unguarded = next((note.unguarded for note in notes if note.unguarded), "")
    if unguarded:
        return f"its log cannot be kept from the candidate here: Landlock: {unguarded}"
    failed = next((note.failed for note in notes if note.failed), "")
    if answer.late:
        return "it did not end in time"
    if failed:
        return f"under it the candidate fails: {failed}"
    if errors_counted(answer.log) is None:
        *_, last = ("", *answer.output.splitlines())
        said = trouble_in(answer.log) or trouble_in(answer.output) or last
        return f"it ended without a summary (exit code {answer.code}){f': {said[:200]}' * bool(said)}"
    if trouble := trouble_in(answer.log):
        return trouble
    return "" if any(note.called for note in notes) else "the candidate was not called"


def _case(init_inputs: tuple[object, ...], weights: Mapping[str, torch.Tensor], inputs: tuple[object, ...]) -> Case:
    """The arguments as they are written to a file."""
    layout = Layout()
    weight_slots = {name: layout.place(tensor.detach()) for name, tensor in weights.items()}
    init_slots, input_slots = layout.place_all(init_inputs), layout.place_all(inputs)
    memory = torch.zeros(max(1, layout.bytes), dtype=torch.uint8)
    with torch.no_grad():
        write_all(weight_slots, dict(weights), memory)
        write_all(init_slots, init_inputs, memory)
        write_all(input_slots, inputs, memory)
    return Case(memory, init_slots, weight_slots, input_slots)
