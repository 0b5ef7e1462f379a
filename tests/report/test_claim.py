"""The claim: never more than the judge said."""

from __future__ import annotations

import pytest

from kernelevolve.judge.verdict import Clock, Effort, Measurement, Samples, Speedup, Stage, Verdict, VerdictKind
from kernelevolve.report.claim import Standing, outcome_word, state_claim


def speedup(low: float, high: float, baseline: str = "eager", clock: Clock = Clock.WALL) -> Speedup:
    return Speedup(baseline=baseline, clock=clock, value=(low + high) / 2, low=low, high=high)


def verdict(
    *speedups: Speedup,
    effort: Effort = Effort.PROMOTION,
    floor: float | None = 0.02,
    at_start: float | None = None,
    kind: str = "correct",
    judge: float | None = 1.5,
) -> Verdict:
    samples = tuple(
        Samples(program=p, workload=w, clock=Clock.WALL, method="monotonic clock", blocks=((1e-3, 1e-3), (1e-3, 1e-3)))
        for p in ("candidate", "eager") for w in ("a", "b")
    )  # fmt: skip
    floors = {} if floor is None else {Clock.WALL: floor}
    if judge is not None:
        speedups += tuple(speedup(judge, judge, s.baseline, Clock.JUDGE) for s in speedups)
    return Verdict(
        candidate_id="c", kind=VerdictKind(kind), stage=Stage.PROMOTION, effort=effort,
        measurement=Measurement(
            samples=samples, speedups=speedups, noise_floors=floors,
            noise_at_start={} if at_start is None else {Clock.WALL: at_start},
        ),
    )  # fmt: skip


def screened(*speedups: Speedup, at_start: float | None) -> Verdict:
    return verdict(*speedups, effort=Effort.SCREEN, floor=None, at_start=at_start)


@pytest.mark.parametrize(
    ("given", "standing"),
    [
        (verdict(speedup(1.5, 1.7)), Standing.WIN),
        (verdict(speedup(1.5, 1.7), speedup(0.9, 1.2, "compile")), Standing.NO_WIN),  # one baseline is not beaten
        (verdict(speedup(1.01, 1.3)), Standing.NO_WIN),  # above 1, but not by more than the noise
        (verdict(speedup(1.5, 1.7), floor=None), Standing.NO_WIN),  # nobody measured the noise
        (verdict(speedup(1.5, 1.7), judge=None), Standing.NO_WIN),  # only the worker's clock says so
        (verdict(speedup(1.5, 1.7), judge=0.9), Standing.NO_WIN),  # the judge's own clock denies it
        (verdict(speedup(1.5, 1.7), judge=1.01), Standing.NO_WIN),  # it cannot tell from nothing what is claimed
        (verdict(speedup(1.15, 1.7), judge=1.1), Standing.WIN),  # less than is claimed, but certainly faster
        (verdict(speedup(1.03, 1.05), judge=1.04), Standing.WIN),  # a small gain, and all of it
        (verdict(speedup(1.5, 1.7), effort=Effort.SCREEN), Standing.UNPROVEN),
        (verdict(), Standing.UNPROVEN),  # nothing to compare with
        (verdict(speedup(1.5, 1.7), kind="wrong"), Standing.NOTHING),
        (None, Standing.NOTHING),
    ],
)
def test_only_a_promotion_that_beats_every_baseline_beyond_noise_is_a_win(
    given: Verdict | None, standing: Standing
) -> None:
    claim = state_claim(given, given is not None and given.effort is Effort.PROMOTION)
    assert claim.standing is standing
    assert ("Faster than every baseline" in claim.headline) == (standing is Standing.WIN)


def test_the_headline_is_about_the_strongest_baseline_with_interval_and_clock() -> None:
    given = verdict(speedup(3.0, 3.2), speedup(1.4, 1.6, "compile", Clock.DEVICE))
    assert "1.50× [1.40, 1.60] against compile" in state_claim(given, True).headline
    assert "device time" in state_claim(given, True).headline


def test_the_basis_counts_what_was_timed() -> None:
    basis = state_claim(verdict(speedup(1.5, 1.7)), True).basis
    assert "16 timed calls on 2 workloads" in basis
    assert "2 interleaved blocks (monotonic clock)" in basis
    assert "95% bootstrap" in basis
    assert "differed by 2.0 %" in basis


def test_replays_are_told_beside_the_claim_and_change_nothing_of_it() -> None:
    given, plain = verdict(speedup(1.5, 1.7)), state_claim(verdict(speedup(1.5, 1.7)), True)
    assert given.measurement is not None
    replays = tuple(
        Samples(program=p, workload=w, clock=Clock.GRAPH, method="replays", blocks=((t,), (t,)))
        for p, t in (("candidate", 8e-6), ("eager", 2e-6))
        for w in ("a", "b")
    )
    measurement = given.measurement.model_copy(
        update={
            "samples": (*given.measurement.samples, *replays),
            "speedups": (*given.measurement.speedups, speedup(0.2, 0.3, clock=Clock.GRAPH)),
        }
    )
    claim = state_claim(given.model_copy(update={"measurement": measurement}), True)
    assert (claim.standing, claim.headline) == (plain.standing, plain.headline)
    assert "Replayed as CUDA graphs: 8.00 µs, eager 2.00 µs (0.25× [0.20, 0.30]), which decides nothing." in claim.basis


@pytest.mark.parametrize(
    ("low", "high", "word"), [(1.1, 1.3, "faster"), (0.7, 0.9, "slower"), (0.9, 1.1, "no difference seen")]
)
def test_a_loss_is_called_a_loss(low: float, high: float, word: str) -> None:
    assert outcome_word(speedup(low, high), verdict()) == word


@pytest.mark.parametrize(
    ("at_start", "word"),
    [(None, "faster"), (0.01, "faster"), (0.08, "no difference seen"), (0.2, "no difference seen")],
)
def test_a_short_timing_is_held_against_the_noise_at_the_start(at_start: float | None, word: str) -> None:
    quick, slow = speedup(1.08, 1.2), speedup(1 / 1.2, 1 / 1.08)
    given = screened(quick, at_start=at_start)
    assert outcome_word(quick, given) == word
    assert outcome_word(slow, given) == word.replace("faster", "slower")
    assert ("noise can do" in state_claim(given, False).headline) == (word != "faster")


def test_a_promotion_is_held_against_its_own_noise() -> None:
    quick = speedup(1.08, 1.2)
    assert outcome_word(quick, verdict(quick, floor=0.02, at_start=0.5)) == "faster"


def test_the_basis_of_a_short_timing_tells_the_noise_at_the_start() -> None:
    assert (
        "differed at the start by up to 3.0 %" in state_claim(screened(speedup(1.5, 1.7), at_start=0.03), False).basis
    )
