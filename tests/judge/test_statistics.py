"""Speed-ups: their value, the honesty of their intervals, and what counts as a win."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from kernelevolve.judge import statistics
from kernelevolve.judge.statistics import Apart, combine, furthest_apart, noise_floor, noise_floors, speedup
from kernelevolve.judge.verdict import LEAST_MARGINS, Clock, Samples, Speedup, is_win

Times = NDArray[np.float64]


def samples(program: str, times: Times) -> Samples:
    blocks = tuple(tuple(float(t) for t in block) for block in times)
    return Samples(program=program, workload="w", clock=Clock.WALL, method="simulated", blocks=blocks)


def machine(
    rng: np.random.Generator, blocks: int = 20, calls: int = 5, noise: float = 0.02
) -> Callable[[float], Samples]:
    """Programs timed side by side on a machine that drifts by 10 %, wanders by 3 %, and is disturbed now and then."""
    wander = np.zeros(blocks)
    for i in range(1, blocks):
        wander[i] = 0.8 * wander[i - 1] + 0.03 * 0.6 * rng.normal()
    common = (np.linspace(0, 0.1, blocks) + wander)[:, None]

    def run(seconds: float) -> Samples:
        times = common + noise * rng.normal(size=(blocks, calls))
        times += (rng.random((blocks, calls)) < 0.05) * rng.exponential(0.5, size=(blocks, calls))
        times += ((rng.random(blocks) < 0.05) * rng.exponential(0.3, size=blocks))[:, None]
        return samples("any", seconds * np.exp(times))

    return run


def test_value_is_the_ratio_of_times() -> None:
    found = speedup(samples("eager", np.full((5, 3), 3e-3)), samples("candidate", np.full((5, 3), 2e-3)))
    assert (found.value, found.low, found.high) == pytest.approx((1.5, 1.5, 1.5))
    assert (found.baseline, found.clock, found.confidence) == ("eager", Clock.WALL, 0.95)


def test_common_drift_cancels() -> None:
    drift = np.linspace(1, 4, 20)[:, None] * np.ones((20, 3))
    found = speedup(samples("eager", 3 * drift), samples("candidate", 2 * drift))
    assert (found.low, found.high) == pytest.approx((1.5, 1.5))


def test_one_disturbed_block_hardly_moves_it() -> None:
    rng = np.random.default_rng(3)
    quiet = 1 + 0.01 * rng.normal(size=(20, 5))
    disturbed = quiet.copy()
    disturbed[7] *= 30
    before = speedup(samples("a", quiet), samples("b", np.ones((20, 5))))
    after = speedup(samples("a", disturbed), samples("b", np.ones((20, 5))))
    assert after.value == pytest.approx(before.value, rel=0.01)
    assert after.high < 1.05


@pytest.mark.parametrize(
    ("first", "second"),
    [(np.ones((3, 2)), np.ones((4, 2))), (np.ones((1, 2)), np.ones((1, 2))), (np.ones((0, 1)),) * 2],
)
def test_needs_paired_blocks(first: Times, second: Times) -> None:
    with pytest.raises(ValueError, match="block"):
        speedup(samples("a", first), samples("b", second))


@given(st.lists(st.floats(0.5, 2.0), min_size=2, max_size=40), st.lists(st.floats(0.5, 2.0), min_size=40, max_size=40))
@settings(max_examples=60, deadline=None)
def test_exchanging_the_programs_inverts_the_interval(a: list[float], b: list[float]) -> None:
    one, two = samples("a", np.array(a)[:, None]), samples("b", np.array(b[: len(a)])[:, None])
    there, back = speedup(one, two), speedup(two, one)
    assert there.low <= there.value <= there.high
    assert (1 / back.value, 1 / back.high, 1 / back.low) == pytest.approx((there.value, there.low, there.high))


@pytest.mark.parametrize("n", [2, 3, 5, 8, 20, 25])
def test_closed_form_of_the_bootstrap_agrees_with_drawing(n: int) -> None:
    rng = np.random.default_rng(n)
    values = np.sort(rng.normal(size=n))
    drawn = np.sort(np.median(values[rng.integers(0, n, size=(200_000, n))], axis=1))
    chances = statistics._chances_of_middle(n)
    first, second = np.nonzero(chances)
    medians = (values[first] + values[second]) / 2
    for cut in np.quantile(values, [0.1, 0.35, 0.5, 0.8]):
        exact = chances[first, second][medians <= cut].sum()
        assert np.searchsorted(drawn, cut, side="right") / len(drawn) == pytest.approx(exact, abs=0.006)
    assert chances.sum() == pytest.approx(1.0)


@pytest.mark.parametrize(("degrees", "quantile"), [(2, 4.303), (4, 2.776), (9, 2.262), (19, 2.093), (99, 1.984)])
def test_student_quantile(degrees: int, quantile: float) -> None:
    assert statistics._student_quantile(0.975, degrees) == pytest.approx(quantile, rel=0.01)


def test_equal_programs_win_rarely_and_the_interval_covers_the_truth() -> None:
    rng = np.random.default_rng(11)
    wins = covered = 0
    sessions = 500
    for _ in range(sessions):
        run = machine(rng)
        found = speedup(run(1e-3), run(1e-3))
        wins += is_win(found, noise_floor=0.0)
        covered += found.low <= 1.0 <= found.high
    assert wins <= 0.02 * sessions
    assert covered >= 0.93 * sessions


def test_five_percent_are_seen_in_twenty_blocks() -> None:
    rng = np.random.default_rng(12)
    sessions = 300
    right = wins = 0
    for _ in range(sessions):
        run = machine(rng)
        found = speedup(run(1.05e-3), run(1e-3))
        right += found.value > 1
        wins += is_win(found, noise_floor(run(1e-3), run(1e-3)))
    assert right >= 0.95 * sessions
    assert wins >= 0.5 * sessions


def test_noise_floor_is_the_apparent_difference_of_one_program() -> None:
    slow, fast = samples("eager", np.full((4, 2), 1.03)), samples("eager again", np.full((4, 2), 1.0))
    assert (noise_floor(slow, fast), noise_floor(fast, slow)) == pytest.approx((0.03, 0.03))


def test_noise_floors_are_means_over_workloads_by_clock() -> None:
    def timed(program: str, workload: str, clock: Clock, seconds: float) -> Samples:
        blocks = ((seconds, seconds),) * 3
        return Samples(program=program, workload=workload, clock=clock, method="simulated", blocks=blocks)

    taken = [
        timed(program, workload, clock, factor if program == "eager again" else 1.0)
        for program in ("candidate", "eager", "eager again")
        for workload, clock, factor in (
            ("a", Clock.DEVICE, 1.02),
            ("b", Clock.DEVICE, 1 / 1.02),
            ("a", Clock.WALL, 1.2),
        )
    ]
    assert noise_floors(taken) == {Clock.DEVICE: pytest.approx(0.02), Clock.WALL: pytest.approx(0.2)}
    assert noise_floors([s for s in taken if s.program != "eager again"]) == {}


def test_the_workload_on_which_twins_differ_most_counts_with_its_interval() -> None:
    def timed(program: str, workload: str, *seconds: float) -> Samples:
        blocks = tuple((s,) for s in seconds)
        return Samples(program=program, workload=workload, clock=Clock.WALL, method="simulated", blocks=blocks)

    assert furthest_apart([timed("eager", "a", 1, 1, 1), timed("candidate", "a", 2, 2, 2)]) == {}
    near = [timed("eager", "a", 1, 1, 1), timed("eager again", "a", 0.99, 1, 1.01)]
    (found,) = furthest_apart(near).values()
    assert found == Apart(value=0.0, low=0.0, high=pytest.approx(1 / 0.99 - 1))
    far = [timed("eager", "b", 1, 1, 1), timed("eager again", "b", 1.08, 1.1, 1.12)]
    (found,) = furthest_apart([*far, *near]).values()
    assert found == Apart(pytest.approx(0.1), pytest.approx(0.08), pytest.approx(0.12))
    with pytest.raises(ValueError):
        furthest_apart([timed("eager", "a", 1, 1, 1), timed("eager again", "a", 1, 1)])


def test_a_win_must_exceed_noise_and_the_margin_of_its_clock() -> None:
    def at_least(low: float) -> Speedup:
        return Speedup(baseline="b", clock=Clock.WALL, value=low + 0.1, low=low, high=low + 0.2)

    assert is_win(at_least(1.021), noise_floor=0.01)
    assert not is_win(at_least(1.03), noise_floor=0.03)
    assert not is_win(at_least(1 + LEAST_MARGINS[Clock.WALL]), noise_floor=0.0)
    by_device = at_least(1.01).model_copy(update={"clock": Clock.DEVICE})
    assert is_win(by_device, noise_floor=0.0) and not is_win(by_device, noise_floor=0.006)
    assert not is_win(at_least(0.9), noise_floor=0.0)


def test_combined_value_is_the_geometric_mean_and_narrows() -> None:
    parts = [Speedup(baseline="b", clock=Clock.WALL, value=v, low=v / 1.1, high=v * 1.1) for v in (1.0, 2.0, 4.0, 0.5)]
    whole = combine(parts)
    assert whole.value == pytest.approx(4 ** (1 / 4))
    assert math.log(whole.high / whole.value) == pytest.approx(math.log(1.1) / 2)
    assert combine(parts[:1]).low == pytest.approx(parts[0].low)


def test_only_one_kind_is_combined() -> None:
    one = Speedup(baseline="b", clock=Clock.WALL, value=1, low=1, high=1)
    with pytest.raises(ValueError, match="combined"):
        combine([one, one.model_copy(update={"clock": Clock.DEVICE})])
    with pytest.raises(ValueError, match="combined"):
        combine([])


def test_combined_interval_covers_the_truth() -> None:
    rng = np.random.default_rng(13)
    covered = 0
    for _ in range(200):
        parts = []
        for _ in range(3):
            run = machine(rng)
            parts.append(speedup(run(2e-3), run(1e-3)))
        whole = combine(parts)
        covered += whole.low <= 2.0 <= whole.high
    assert covered >= 0.93 * 200
