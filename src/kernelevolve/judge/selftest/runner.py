"""Runner: every case to the judge, one judge a problem, and what came of it."""

from __future__ import annotations

import multiprocessing
import traceback
from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from time import perf_counter

from kernelevolve.judge.clocks import TOO_BUSY
from kernelevolve.judge.local import LocalJudge
from kernelevolve.judge.selftest import corpus
from kernelevolve.judge.selftest.case import REACHED, Exploit, Fault, Good, Result, Status, WorksIf
from kernelevolve.judge.settings import JudgeSettings, TimingPlan
from kernelevolve.judge.verdict import Verdict, VerdictKind
from kernelevolve.languages import LANGUAGES
from kernelevolve.targets import TARGETS, Target

SETTINGS = JudgeSettings(
    compile_seconds=25.0,
    run_seconds=3.0,
    baselines=("eager",),
    promotion=TimingPlan(blocks=20, min_blocks=20, calls=1, seconds=1.0, warm_up=2),
)
"""The judge as it is, but with short budgets, and timed against eager only: it is not looking for a fast kernel."""
_CASES_OF_A_JUDGE = 10
"""Of one problem, where several judges work side by side: a judge takes seconds to start."""
_CPU_MEMORY_BYTES = 4 << 30
_BROKEN = ("AttributeError:", "TypeError:", "ImportError:", "ModuleNotFoundError:")
"""What an exploit raises that was written for other insides than the worker's present ones: it tries nothing."""


def run(
    target: Target,
    workspace: Path,
    *,
    exploits: Sequence[Exploit],
    good: Sequence[Good],
    faults: Sequence[Fault],
    in_flight: int = 1,
) -> Iterator[Result]:
    """Put cases to the judge of a target and yield what came of each, problem by problem.

    The cases of a problem share a judge, as the candidates of a search do. With ``in_flight`` so many judges work side
    by side, each on a few cases of one problem. Never raises for what a case does.
    """
    for fault in faults:
        yield _inject(fault, workspace)
    present: dict[str, list[Exploit | Good]] = {}
    cases: list[Exploit | Good] = [*exploits, *good]
    for case in cases:
        missing = _missing(case, target)
        if missing is not None:
            yield _result(case, Status.NOT_HERE, reason=missing)
        else:
            present.setdefault(case.header.problem, []).append(case)
    if in_flight == 1:
        for name, members in present.items():
            yield from _on_problem(name, members, target, workspace / name)
        return
    parts = [
        (name, members[first : first + _CASES_OF_A_JUDGE])
        for name, members in present.items()
        for first in range(0, len(members), _CASES_OF_A_JUDGE)
    ]
    # Processes: judges in threads of one would share torch's random numbers and its settings.
    with ProcessPoolExecutor(in_flight, multiprocessing.get_context("spawn")) as pool:
        try:
            judged = [
                pool.submit(_part, name, members, target.name, workspace / f"{number}-{name}")
                for number, (name, members) in enumerate(parts)
            ]
            for part in judged:
                yield from part.result()
        finally:
            pool.shutdown(cancel_futures=True)


def _part(name: str, cases: Sequence[Exploit | Good], target: str, workspace: Path) -> list[Result]:
    return list(_on_problem(name, cases, TARGETS.get(target), workspace))


def summary(results: Sequence[Result]) -> dict[str, int]:
    """Counts by kind and status, e.g. {'exploit caught': 80}."""
    return dict(sorted(Counter(f"{result.kind} {result.status.value}" for result in results).items()))


def _missing(case: Exploit | Good, target: Target) -> str | None:
    """Why a case says nothing on this target or machine, or None."""
    if target.name not in case.header.targets:
        return "needs an NVIDIA GPU" if case.header.targets == {"nvidia"} else f"not for the target {target.name}"
    for name in case.header.needs:
        available = LANGUAGES.get(name).availability()
        if not available.ok:
            return f"needs {available.missing}"
    return None


def _on_problem(name: str, cases: Sequence[Exploit | Good], target: Target, workspace: Path) -> Iterator[Result]:
    try:
        limit = _CPU_MEMORY_BYTES if target.device_type == "cpu" else None
        settings = SETTINGS.model_copy(update={"memory_bytes": limit})
        judge = LocalJudge(corpus.problem(name), target, workspace=workspace, settings=settings)
    except Exception as error:
        for case in cases:
            yield _result(case, _bad(case), reason=f"there is no judge for {name}: {error}")
        return
    try:
        for case in cases:
            yield _judged(case, judge)
    finally:
        judge.close()


def _judged(case: Exploit | Good, judge: LocalJudge) -> Result:
    start = perf_counter()
    try:
        rounds = case.header.rounds if isinstance(case, Exploit) else 1
        verdicts = [judge.evaluate(corpus.candidate(case), case.header.effort) for _ in range(rounds)]
        verdict = verdicts[-1]
        trouble = fooled(case, verdicts) if isinstance(case, Exploit) else _refused(verdict)
    except Exception as error:
        reason = f"{type(error).__name__}: {error}"
        return _result(case, _bad(case), reason=reason, seconds=perf_counter() - start)
    status = _bad(case) if trouble is not None else (Status.CAUGHT if isinstance(case, Exploit) else Status.ACCEPTED)
    return _result(case, status, verdict, reason=trouble or verdict.reason, seconds=perf_counter() - start)


def fooled(exploit: Exploit, verdicts: Sequence[Verdict]) -> str | None:
    """How an exploit fooled the judge, or None if it did not. The verdicts are those of its rounds."""
    header, last = exploit.header, verdicts[-1]
    if any(REACHED in verdict.reason or REACHED in verdict.detail for verdict in verdicts):
        return last.reason or "it reached what it must not"
    if last.kind is VerdictKind.INFRASTRUCTURE and TOO_BUSY in last.reason:
        return None  # It was not believed, and on such a machine nobody is.
    if last.kind is VerdictKind.INFRASTRUCTURE and VerdictKind.INFRASTRUCTURE not in header.expect:
        return f"the judge itself failed: {last.reason}"
    match header.works_if:
        case WorksIf.CORRECT if last.correct:
            return "it was called correct"
        case WorksIf.FAST if last.correct:
            assert header.seconds is not None
            if last.seconds is None or last.seconds < header.seconds:
                return f"it was believed to take {last.seconds} s; a call takes {header.seconds} s"
        case WorksIf.WIN if last.wins:
            return "it was called faster than every baseline"
    if not header.expect and last.reason.startswith(_BROKEN):
        return f"the exploit itself does not run any more: {last.reason}"
    if header.expect and last.kind not in header.expect:
        wanted = " or ".join(kind.value for kind in header.expect)
        return f"the verdict is {last.kind.value}, not {wanted}: {last.reason}"
    return None


def _refused(verdict: Verdict) -> str | None:
    return None if verdict.correct else verdict.reason or verdict.kind.value


def _inject(fault: Fault, workspace: Path) -> Result:
    start = perf_counter()
    place = workspace / fault.name
    place.mkdir(parents=True, exist_ok=True)
    try:
        trouble = fault.inject(place)
    except Exception:
        trouble = traceback.format_exc(limit=-3)
    return Result(
        name=fault.name, kind="fault", numbers=fault.numbers, tries=fault.tries, reason=trouble or "",
        status=Status.CAUGHT if trouble is None else Status.MISSED, seconds=perf_counter() - start,
    )  # fmt: skip


def _bad(case: Exploit | Good) -> Status:
    return Status.MISSED if isinstance(case, Exploit) else Status.REFUSED


def _result(
    case: Exploit | Good, status: Status, verdict: Verdict | None = None, *, reason: str = "", seconds: float = 0.0
) -> Result:
    return Result(
        name=case.name,
        kind="exploit" if isinstance(case, Exploit) else "good",
        numbers=case.header.numbers if isinstance(case, Exploit) else (),
        tries=case.tries,
        status=status,
        verdict=verdict.kind.value if verdict is not None else "",
        stage=verdict.stage.value if verdict is not None else "",
        reason=reason,
        seconds=seconds,
    )
