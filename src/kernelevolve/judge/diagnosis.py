"""From a verdict to a Diagnosis: what the judge has measured, put together with whatever profilers said."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from kernelevolve.judge.verdict import Clock, Verdict
from kernelevolve.profilers.diagnosis import Diagnosis, Evidence
from kernelevolve.profilers.naming import Facts, name_bottleneck
from kernelevolve.profilers.suggestions import suggest


def diagnose(
    verdict: Verdict,
    *,
    workload: str | None = None,
    launch_seconds: float | None = None,
    evidence: Sequence[Evidence] = (),
    ran: Sequence[str] = (),
    missing: Mapping[str, str] | None = None,
) -> Diagnosis:
    """The diagnosis of a judged candidate on one workload: by default the slowest that was timed.

    Without evidence from profilers it rests on roofline, device time and wall time alone, costs nothing, and needs
    nothing but the verdict, so there is one for every node of a search. ``launch_seconds`` is the device's time for an
    empty call (``Ceilings.launch_seconds``), if it is known. Never raises.
    """
    return diagnose_facts(facts_of(verdict, workload, launch_seconds), evidence, ran, missing)


def diagnose_facts(
    facts: Facts, evidence: Sequence[Evidence] = (), ran: Sequence[str] = (), missing: Mapping[str, str] | None = None
) -> Diagnosis:
    """The diagnosis that facts and evidence give together."""
    everything = (*facts.evidence(), *evidence)
    bottleneck, why = name_bottleneck(facts, everything)
    return Diagnosis(
        candidate_id=facts.candidate_id,
        workload=facts.workload,
        bottleneck=bottleneck,
        summary=f"{bottleneck}: {why}",
        distance=facts.distance,
        evidence=everything,
        suggestions=suggest(facts, bottleneck, everything),
        ran=tuple(ran),
        missing=dict(missing or {}),
    )


def facts_of(verdict: Verdict, workload: str | None = None, launch_seconds: float | None = None) -> Facts:
    """What a verdict says of one workload; times and floor are None where it was not timed."""
    samples = [s for s in verdict.measurement.samples if s.program == "candidate"] if verdict.measurement else []
    times = {(s.workload, s.clock): s.seconds for s in samples}
    if workload is None:
        workload = max(times, key=lambda key: times[key], default=("", Clock.WALL))[0]
    roofline = next((r for r in verdict.rooflines if r.workload == workload), None)
    threads = verdict.measurement.environment.get("threads", "") if verdict.measurement else ""
    return Facts(
        candidate_id=verdict.candidate_id,
        workload=workload,
        wall_seconds=times.get((workload, Clock.WALL)),
        device_seconds=times.get((workload, Clock.DEVICE)),
        around_seconds=_around_a_call(verdict, workload),
        floor_seconds=roofline.floor_seconds if roofline is not None else None,
        floor_bound=roofline.bound if roofline is not None else "",
        bytes=roofline.bytes if roofline is not None else 0.0,
        launch_seconds=launch_seconds,
        threads=int(threads) if threads.isdigit() and int(threads) > 0 else 1,
    )


def _around_a_call(verdict: Verdict, workload: str) -> float | None:
    """What a call takes beside the device's work for the baseline that adds least; None if none has both times."""
    samples = verdict.measurement.samples if verdict.measurement else ()
    taken = {(s.program, s.clock): s.seconds for s in samples if s.workload == workload and s.program != "candidate"}
    added = [
        taken[program, Clock.WALL] - seconds
        for (program, clock), seconds in taken.items()
        if clock is Clock.DEVICE and (program, Clock.WALL) in taken
    ]
    return max(0.0, min(added)) if added else None
