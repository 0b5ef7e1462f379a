"""The claim: what a run may say of its best kernel, and on what it rests. One wording for terminal and report."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum

from kernelevolve.judge.verdict import Clock, Measurement, Speedup, Verdict, is_win
from kernelevolve.report.units import ratio_text, seconds_text, share_text, speedup_text
from kernelevolve.search.control import BestOfN


class Standing(StrEnum):
    """How much a result is worth."""

    WIN = "win"
    """The strict test found it faster than every baseline, beyond interval and noise."""
    NO_WIN = "no win"
    """The strict test found it correct, but not faster than every baseline."""
    UNPROVEN = "unproven"
    """Only the search's short timing stands behind it."""
    NOTHING = "nothing"
    """No correct kernel."""


@dataclass(frozen=True, slots=True)
class Claim:
    """A headline and how it was measured, in whole sentences."""

    standing: Standing
    headline: str
    basis: str


def state_claim(verdict: Verdict | None, promoted: bool) -> Claim:
    """What may be said of the best kernel's verdict; None if there is no correct kernel."""
    if verdict is None or not verdict.correct:
        return Claim(Standing.NOTHING, "No correct kernel was found.", "Nothing that was proposed passed the judge.")
    speedups = list(verdict.speedups.values())
    basis = describe_basis(verdict.measurement) if verdict.measurement is not None else "It was not timed."
    if not speedups:
        return Claim(Standing.UNPROVEN, "The kernel is correct, but no baseline could be timed beside it.", basis)
    strongest = min(speedups, key=lambda s: s.value)
    against = f"{speedup_text(strongest)} against {strongest.baseline}, the fastest baseline, in {strongest.clock} time"
    if not promoted:
        return Claim(
            Standing.UNPROVEN,
            f"Not yet proven: a short timing gives {against}{_within_noise(strongest, verdict)}.",
            f"No strict test has confirmed it, so this is no claim. {basis}",
        )
    if verdict.wins:
        return Claim(Standing.WIN, f"Faster than every baseline: {against}.", f"Measured by the strict test. {basis}")
    return Claim(
        Standing.NO_WIN,
        f"Correct, but not faster than every baseline: {against}.",
        f"Measured by the strict test; a win needs every interval above 1 by more than the noise. {basis}",
    )


def describe_basis(measurement: Measurement) -> str:
    """How the times were taken, from the measurement itself."""
    blocks = max((len(s.blocks) for s in measurement.samples), default=0)
    calls = sum(len(block) for s in measurement.samples for block in s.blocks)
    workloads = len({s.workload for s in measurement.samples})
    methods = sorted({s.method for s in measurement.samples})
    confidence = max((s.confidence for s in measurement.speedups), default=0.95)
    noise, whose = _main(measurement.noise_floors), "a baseline timed against itself differed by"
    if noise is None:
        noise, whose = _main(measurement.noise_at_start), "two processes of a baseline differed at the start by up to"
    return (
        f"{calls} timed calls on {workloads} workload{'s' if workloads != 1 else ''}, kernel and baselines side by "
        f"side in up to {blocks} interleaved blocks ({'; '.join(methods)}); the figure is the median over blocks, the "
        f"interval a {confidence:.0%} bootstrap over paired blocks"
        + (f"; {whose} {share_text(noise)}" if noise is not None else "")
        + "."
        + "".join(f" {sentence}" for sentence in _graph_sentences(measurement))
    )


def _graph_sentences(measurement: Measurement) -> Iterator[str]:
    """What short programs take where both are replayed as CUDA graphs: said beside the claim, no part of it."""
    for s in measurement.speedups:
        if s.clock is Clock.GRAPH:
            mine, theirs = (seconds_text(measurement.seconds(p, Clock.GRAPH)) for p in ("candidate", s.baseline))
            yield f"Replayed as CUDA graphs: {mine}, {s.baseline} {theirs} ({speedup_text(s)}), which decides nothing."


def _main(floors: Mapping[Clock, float]) -> float | None:
    return floors.get(Clock.DEVICE, floors.get(Clock.WALL))


def control_sentence(control: BestOfN, evaluations: int) -> str:
    """What best-of-n, the control of every search, would have reached with as many evaluations."""
    drafts = "1 independent draft" if control.drafts == 1 else f"{control.drafts} independent drafts"
    if not math.isfinite(control.best_draft):
        return f"{drafts}, none of them correct"
    best, estimate = (ratio_text(math.exp(fitness)) for fitness in (control.best_draft, control.estimate))
    return (
        f"best of {drafts} alone: {best} the best baseline (measured); with all {evaluations} evaluations spent on "
        f"drafts: {estimate} (estimated)"
    )


def outcome_word(speedup: Speedup, verdict: Verdict) -> str:
    """``faster``, ``slower``, or ``no difference seen`` where the interval is not clear of 1 by more than noise.

    The rule is that of a promotion. Where no baseline was run twice beside the kernel, noise is what it was when the
    judge started.
    """
    noise = verdict.measurement.noise_floor(speedup.clock) if verdict.measurement is not None else 0.0
    if is_win(speedup, noise):
        return "faster"
    inverse = {"value": 1 / speedup.value, "low": 1 / speedup.high, "high": 1 / speedup.low}
    return "slower" if is_win(speedup.model_copy(update=inverse), noise) else "no difference seen"


def _within_noise(speedup: Speedup, verdict: Verdict) -> str:
    seen = speedup.low <= 1 or outcome_word(speedup, verdict) == "faster"
    return "" if seen else ", which noise can do as well"
