"""Rejection: a candidate's judging has ended before ``correct``. Also how the end of a worker reads as a verdict."""

from __future__ import annotations

from kernelevolve.judge.verdict import OutputError, Stage, VerdictKind
from kernelevolve.workers.handle import (
    ProgramRaised,
    WorkerDied,
    WorkerFailure,
    WorkerOverLimit,
    WorkerTimeout,
)
from kernelevolve.workers.wire import WireViolation

_DETAIL_LIMIT = 6_000


class Rejected(Exception):
    """The verdict is settled at this stage, and is not ``correct``."""

    def __init__(
        self, kind: VerdictKind, stage: Stage, reason: str, detail: str = "", errors: tuple[OutputError, ...] = ()
    ) -> None:
        self.kind, self.stage, self.reason, self.errors = kind, stage, " ".join(reason.split()), errors
        self.detail = detail if len(detail) <= _DETAIL_LIMIT else detail[:_DETAIL_LIMIT] + "\n[cut]"
        super().__init__(self.reason)


def rejection(failure: WorkerFailure | WireViolation, stage: Stage, output: str) -> Rejected:
    """What a worker's failure at a stage says about the candidate; ``output`` is what the program printed."""
    match failure:
        case WireViolation():
            reason = f"the candidate wrote to the judge's wire: {failure}"
            return Rejected(VerdictKind.CHEAT, stage, reason, output)
        case ProgramRaised():
            return _raised(failure, stage)
        case WorkerTimeout():
            what = "building" if stage is Stage.BUILD else "a call"
            return Rejected(VerdictKind.TIMEOUT, stage, f"{what} did not end within {failure.seconds:.3g} s", output)
        case WorkerOverLimit(what="memory"):
            reason = f"it used {failure.used / 1e9:.2f} GB of memory, {failure.limit / 1e9:.2f} GB are allowed"
            return Rejected(VerdictKind.OUT_OF_MEMORY, stage, reason, output)
        case WorkerOverLimit():
            reason = f"it ran {failure.used} processes, {failure.limit} are allowed"
            return Rejected(VerdictKind.RUNTIME_ERROR, stage, reason, output)
        case WorkerDied():
            return _died(failure, stage, output)
        case _:
            return Rejected(VerdictKind.INFRASTRUCTURE, stage, str(failure), output)


def _raised(failure: ProgramRaised, stage: Stage) -> Rejected:
    failed = failure.failed
    first_line = next((line for line in failed.message.splitlines() if line.strip()), "")
    reason = f"{failed.type}: {first_line}"
    detail = "\n".join(part for part in (failed.traceback, f"{failed.type}: {failed.message}") if part)
    if failed.category == "memory":
        return Rejected(VerdictKind.OUT_OF_MEMORY, stage, reason, detail)
    if failed.category == "build":
        return Rejected(VerdictKind.BUILD_ERROR, Stage.BUILD, reason, failed.message or detail)
    if failed.category == "interface":
        return Rejected(VerdictKind.BUILD_ERROR, stage, first_line, detail)
    kind = VerdictKind.BUILD_ERROR if stage is Stage.BUILD else VerdictKind.RUNTIME_ERROR
    return Rejected(kind, stage, reason, detail)


def _died(death: WorkerDied, stage: Stage, output: str) -> Rejected:
    if death.signal_name == "SIGXCPU":
        return Rejected(VerdictKind.TIMEOUT, stage, "it used up its processor time", output)
    if death.killed:
        return Rejected(VerdictKind.INFRASTRUCTURE, stage, "somebody else killed the worker", output)
    if death.signal is not None:
        if "bad_alloc" in output:
            return Rejected(VerdictKind.OUT_OF_MEMORY, stage, "it ran out of memory (std::bad_alloc)", output)
        return Rejected(VerdictKind.RUNTIME_ERROR, stage, f"it crashed with {death.signal_name}", output)
    reason = f"it ended its process with exit code {death.code} instead of answering"
    return Rejected(VerdictKind.RUNTIME_ERROR, stage, reason, output)
