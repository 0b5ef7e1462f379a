"""Memory check: a promotion calls the candidate once per workload where every access to memory is watched.

In a fresh process, on inputs of its own, untimed. On a CPU the candidate's C++ is built with AddressSanitizer and
UndefinedBehaviorSanitizer; on a GPU nothing is mapped behind any tensor, so that an access past the end faults, and
compute-sanitizer watches further calls where it is installed (``gpu_sanitizer``). Outputs are not compared: what is
built to be watched sums in another order, and the ordinary calls have settled that.

It finds mistakes. A program that recognises the watched process can behave there and nowhere else.
"""

from __future__ import annotations

from dataclasses import dataclass
from time import monotonic

from kernelevolve.errors import KernelEvolveError
from kernelevolve.judge.bench import Bench
from kernelevolve.judge.cases import CaseBook, derived_seed
from kernelevolve.judge.gpu_sanitizer import sanitize
from kernelevolve.judge.named_blocks import named_blocks
from kernelevolve.judge.rejection import Rejected
from kernelevolve.judge.sanitizer_report import read_report
from kernelevolve.judge.session import ProgramSession
from kernelevolve.judge.verdict import Stage, VerdictKind
from kernelevolve.languages.language import imports
from kernelevolve.languages.toolchain import sanitizer
from kernelevolve.problems import Role, Workload
from kernelevolve.workers.guarded import ILLEGAL_ACCESS
from kernelevolve.workers.handle import ProgramRaised, WorkerDied, WorkerFailure
from kernelevolve.workers.messages import CandidateProgram
from kernelevolve.workers.wire import WireViolation

MEMORY_CHECK = "memory_check"
"""Name under which a promotion's environment holds what was watched."""
_METHODS = {
    "cpu": "AddressSanitizer and UndefinedBehaviorSanitizer",
    "cuda": "every allocation between addresses that are not mapped",
}
"""torch device type -> how accesses are watched there."""
_LEAST_SECONDS = 0.5
"""With less time left no further workload is begun."""
_LARGEST_BYTES = 512 << 20
"""Inputs and weights of a workload; larger ones take too long where every access is watched."""
_FAULTS = ("illegal memory access", "CUDA error 700", "OutOfBoundsWrite")
"""In what a program on a GPU raises after it has touched what is not its own."""


@dataclass(frozen=True, slots=True)
class MemoryCheck:
    """What came of it, for a candidate that was not found out."""

    summary: str
    """A few words for the environment of the measurement."""
    notes: tuple[str, ...] = ()
    """Whole sentences on what could not be watched."""


NOT_EXAMINED = MemoryCheck("none")


def examine(bench: Bench, source: str, book: CaseBook) -> MemoryCheck:
    """Call the program ``source`` on the workloads of a promotion, the smallest first, until the time for it is up.

    Raises Rejected with ``wrong`` if it touches memory that is not its own, or computes what C++ leaves undefined.
    """
    if bench.settings.memory_check_seconds == 0:
        return NOT_EXAMINED
    if bench.target.device_type == "cpu" and "kernelevolve.languages.cpp" not in imports(source):
        return MemoryCheck(
            "nothing to watch",
            ("memory: no access was watched, as it builds no C++ through kernelevolve.languages.cpp",),
        )
    checked = _watched_calls(bench, source, book)
    if bench.target.device_type != "cuda":
        return checked
    sanitized = sanitize(bench, source, book)
    parts = [part for part in (checked.summary, sanitized.summary) if part and part != NOT_EXAMINED.summary]
    return MemoryCheck("; ".join(parts) or NOT_EXAMINED.summary, (*checked.notes, *sanitized.notes))


def _watched_calls(bench: Bench, source: str, book: CaseBook) -> MemoryCheck:
    """The calls in a worker of which every allocation is guarded. Raises Rejected."""
    try:
        session, place = bench.workers.open_watched()
    except (KernelEvolveError, WorkerFailure) as reason:
        words = reason.problem if isinstance(reason, KernelEvolveError) else str(reason)
        return MemoryCheck("none", (f"memory: no access of it was watched: {words}",))
    run = _Run(bench, session, source, book)
    try:
        with bench.lock.working():
            run.call_all()
    except (WorkerFailure, WireViolation) as failure:
        run.judge(failure)
    finally:
        session.close()
        bench.workers.clean(place)
    return run.result()


class _Run:
    """One program in one watched worker."""

    def __init__(self, bench: Bench, session: ProgramSession, source: str, book: CaseBook) -> None:
        self._bench, self._session, self._source, self._book = bench, session, source, book
        self._watched: list[str] = []
        self._blocks: dict[int, list[str]] = {}
        """Bytes -> the tensors that are exactly as long, in words."""
        self._unfinished = ""
        self._too_large: tuple[str, ...] = ()

    def call_all(self) -> None:
        """One call per workload. May raise WorkerFailure or WireViolation."""
        bench, session, left = self._bench, self._session, self._bench.settings.memory_check_seconds
        self._unfinished = "it was not loaded"
        session.load(CandidateProgram(self._source), bench.settings.compile_seconds)
        for workload, seed in self._by_size():
            self._unfinished = f"its call on workload {workload.name} did not end well"
            init_inputs, weights, inputs = bench.arguments(workload, seed)
            self._blocks = named_blocks(weights, inputs)
            names, training = bench.instance.parameter_names, bench.instance.training
            session.construct(workload.name, init_inputs, weights, names, training, bench.settings.compile_seconds)
            start = monotonic()
            binding = session.bind(workload.name, inputs)
            session.prepare(binding, inputs, left)
            session.forget(session.call(workload.name, [binding], left))
            session.drop(workload.name, binding)
            left -= monotonic() - start
            self._watched.append(workload.name)
            if left < _LEAST_SECONDS:
                self._unfinished = "the time for it was up" if len(self._watched) < len(bench.workloads(*Role)) else ""
                return
        self._unfinished = ""

    def _by_size(self) -> list[tuple[Workload, int]]:
        """Workloads that are not too large, with a seed for each, the one of the least bytes first."""
        sized: list[tuple[int, Workload, int]] = []
        for workload in self._bench.workloads(*Role):
            seed = derived_seed(self._book.seed, workload, MEMORY_CHECK)
            _, weights, inputs = self._bench.arguments(workload, seed)
            sized.append(
                (sum(size * len(paths) for size, paths in named_blocks(weights, inputs).items()), workload, seed)
            )
        self._too_large = tuple(workload.name for size, workload, _ in sized if size > _LARGEST_BYTES)
        sized.sort(key=lambda entry: entry[0])
        return [(workload, seed) for size, workload, seed in sized if size <= _LARGEST_BYTES]

    def judge(self, failure: WorkerFailure | WireViolation) -> None:
        """Raises Rejected if the worker failed because an access was out of bounds; anything else is noted only.

        Programs have passed every other stage by now. That one of them does not get on with a sanitizer is no fault.
        """
        output = self._session.handle.output()
        if isinstance(failure, WorkerDied) and failure.code == sanitizer.EXIT_CODE:
            found = read_report(output, self._source, self._blocks)
            raise Rejected(VerdictKind.WRONG, Stage.INTEGRITY, found.sentence, found.detail)
        if isinstance(failure, WorkerDied) and failure.code == ILLEGAL_ACCESS:
            reason = "it reads or writes memory that belongs to no tensor"
            raise Rejected(VerdictKind.WRONG, Stage.INTEGRITY, reason, output)
        if isinstance(failure, ProgramRaised):
            words = f"{failure.failed.type}: {failure.failed.message}"
            if any(fault in words for fault in _FAULTS):
                reason = "it reads or writes memory that belongs to no tensor: " + words.splitlines()[0]
                raise Rejected(VerdictKind.WRONG, Stage.INTEGRITY, reason, f"{failure.failed.traceback}\n{words}")
            self._unfinished += f" ({words.splitlines()[0]})"
        else:
            *_, last = ("", *output.splitlines())
            self._unfinished += f" ({failure}{': ' * bool(last)}{last[:200]})"

    def result(self) -> MemoryCheck:
        """What has been watched, and what has not and why."""
        summary = f"{_METHODS[self._bench.target.device_type]}; {len(self._watched)} workloads"
        notes = []
        if self._unfinished:
            watched = ", ".join(self._watched) or "none"
            notes.append(f"memory: accesses were watched on these workloads only: {watched}; {self._unfinished}")
        if self._too_large:
            notes.append(f"memory: these workloads are too large to watch accesses on: {', '.join(self._too_large)}")
        return MemoryCheck(summary, tuple(notes))
