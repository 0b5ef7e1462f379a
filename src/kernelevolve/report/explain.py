"""Why the best kernel is fast, as far as what was recorded of it can tell: physics, structure, numbers."""

from __future__ import annotations

from collections.abc import Sequence

from kernelevolve.candidates import TunableSpace
from kernelevolve.candidates.structure import read_choices, read_space
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
    sentences = _physics(verdict.rooflines)
    sentences += [_baseline_physics(verdict)] if verdict.rooflines and verdict.measurement is not None else []
    plan = structure_of(entry)
    if plan:
        sentences.append("Its structure: " + ", ".join(f"{name} = {choice}" for name, choice in plan.items()) + ".")
    sentences += [f"The kernel says of itself: {note}." for note in verdict.notes]
    return tuple(s for s in sentences if s)


def structure_of(entry: NodeEntry) -> dict[str, str]:
    """The structural decisions that a generated source records; {} if it records none."""
    return read_choices(entry.candidate.source)


def space_of(entry: NodeEntry) -> TunableSpace:
    """The tunables that a candidate declares; an empty space if they cannot be read."""
    try:
        return read_space(entry.candidate.source)
    except InvalidCandidate:
        return TunableSpace()


def _physics(rooflines: Sequence[Roofline]) -> list[str]:
    """One sentence for all workloads that have the same work to do."""
    alike: dict[tuple[float, float, float, str], list[Roofline]] = {}
    for r in rooflines:
        alike.setdefault((r.bytes, r.flops, r.floor_seconds, r.bound), []).append(r)
    return [_physics_sentence(group) for group in alike.values()]


def _physics_sentence(alike: Sequence[Roofline]) -> str:
    first, names = alike[0], ", ".join(r.workload for r in alike)
    subject = f"Workload {names} must" if len(alike) == 1 else f"Workloads {names} must each"
    work = f"move at least {amount_text(first.bytes, 'B')} and do {amount_text(first.flops, 'flop')}"
    floor = f"estimated floor {seconds_text(first.floor_seconds)} at this device's ceilings"
    limit = _LIMITS.get(first.bound, first.bound)
    fractions = [r.fraction for r in alike if r.fraction]
    reached = ""
    if fractions:
        low, high = share_text(min(fractions)), share_text(max(fractions))
        reached = f"; the kernel reaches {low if low == high else f'{low} to {high}'} of it"
    return f"{subject} {work}; limited by {limit} ({floor}){reached}."


def _baseline_physics(verdict: Verdict) -> str:
    """How far the baselines are from the same floor: that distance is what there was to gain."""
    fraction = verdict.roofline_fraction
    if fraction is None or not verdict.speedups:
        return ""
    rest = ", ".join(f"{s.baseline} {share_text(fraction / s.value)}" for s in verdict.speedups.values())
    room = f"at most {ratio_text(1 / fraction)} is left to gain" if fraction <= 1 else "the floor itself is too high"
    return f"Of the same floor the baselines reach: {rest}; {room}."
