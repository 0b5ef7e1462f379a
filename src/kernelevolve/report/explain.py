"""Why the best kernel is fast, as far as what was recorded of it can tell: physics, structure, numbers."""

from __future__ import annotations

from kernelevolve.candidates import TunableSpace
from kernelevolve.candidates.structure import read_plan, read_space
from kernelevolve.errors import InvalidCandidate
from kernelevolve.judge.verdict import Roofline, Verdict
from kernelevolve.report.contents import NodeEntry
from kernelevolve.report.units import amount_text, ratio_text, seconds_text, share_text

_LIMITS = {
    "memory": "moving its data",
    "compute": "its arithmetic",
    "launch": "starting a kernel at all",
}


def explain(entry: NodeEntry) -> tuple[str, ...]:
    """Sentences, the most telling first. What is computed and not measured is called estimated."""
    verdict = entry.verdict
    sentences = [_physics(r, verdict) for r in verdict.rooflines]
    sentences += [_baseline_physics(verdict)] if verdict.rooflines and verdict.measurement is not None else []
    plan = structure_of(entry)
    if plan:
        sentences.append("Its structure: " + ", ".join(f"{name} = {choice}" for name, choice in plan.items()) + ".")
    sentences += [f"Not its own work: {note}." for note in verdict.notes]
    return tuple(s for s in sentences if s)


def structure_of(entry: NodeEntry) -> dict[str, str]:
    """The structural decisions that a generated source records; {} if it records none."""
    try:
        plan = read_plan(entry.candidate.source)
    except InvalidCandidate:
        return {}
    choices = plan.get("choices", plan)
    return {str(k): str(v) for k, v in choices.items()} if isinstance(choices, dict) else {}


def space_of(entry: NodeEntry) -> TunableSpace:
    """The tunables that a candidate declares; an empty space if they cannot be read."""
    try:
        return read_space(entry.candidate.source)
    except InvalidCandidate:
        return TunableSpace()


def _physics(roofline: Roofline, verdict: Verdict) -> str:
    work = f"must move at least {amount_text(roofline.bytes, 'B')} and do {amount_text(roofline.flops, 'flop')}"
    floor = f"estimated floor {seconds_text(roofline.floor_seconds)} at this device's ceilings"
    limit = _LIMITS.get(roofline.bound, roofline.bound)
    reached = f"; the kernel reaches {share_text(roofline.fraction)} of it" if roofline.fraction else ""
    return f"Workload {roofline.workload} {work}; it is limited by {limit} ({floor}){reached}."


def _baseline_physics(verdict: Verdict) -> str:
    """How far the baselines are from the same floor: that distance is what there was to gain."""
    fraction = verdict.roofline_fraction
    if fraction is None or not verdict.speedups:
        return ""
    rest = ", ".join(f"{s.baseline} {share_text(fraction / s.value)}" for s in verdict.speedups.values())
    room = f"at most {ratio_text(1 / fraction)} is left to gain" if fraction <= 1 else "the floor itself is too high"
    return f"Of the same floor the baselines reach: {rest}; {room}."
