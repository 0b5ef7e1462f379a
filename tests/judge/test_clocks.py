"""Clocks: what speaks against a time and, as important, what does not."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kernelevolve.judge import clocks

seconds = st.floats(1e-6, 1.0)
USUAL = [1e-4, 1.1e-4, 0.9e-4, 1e-4]


@given(outer=seconds, shake=st.floats(0, 1.5e-4), noise=st.floats(0, 1.0))
def test_an_honest_clock_passes(outer: float, shake: float, noise: float) -> None:
    assert clocks.series_disagreement([shake + noise, shake, shake + noise], USUAL, outer) is None


@given(outer=st.floats(3e-3, 10.0), part=st.floats(0, 0.8))
def test_a_slow_clock_is_seen(outer: float, part: float) -> None:
    assert clocks.series_disagreement([outer * (1 - part) + 1e-4] * 3, USUAL, outer) is not None


def test_noise_of_the_baselines_excuses_and_their_absence_too() -> None:
    assert clocks.series_disagreement([8e-4] * 3, USUAL, 1e-3) is not None
    assert clocks.series_disagreement([8e-4] * 3, [-1e-3, 1e-3, -1e-3, 1e-3], 1e-3) is None
    assert clocks.series_disagreement([8e-4] * 3, [], 1e-3) is None
    # A hand-shake that was credited with more delay than it had is no evidence against the others.
    assert clocks.series_disagreement([1e-4] * 3, [-4e-4] * 9, 1e-3) is None


@given(single=seconds, calls=st.integers(1, 256))
def test_cold_calls_may_take_longer_but_not_less(single: float, calls: int) -> None:
    series = [single + 5e-5 / calls, single * 2, single * 3]
    assert clocks.cold_below_series(single, series, calls) is None
    if single * calls > 2e-3:
        assert clocks.cold_below_series(single / 2, series, calls) is not None


def test_late_work() -> None:
    assert clocks.late_work([0.2, 1e-3], [0.9e-3, 1e-3], 5e-3) is None
    assert clocks.late_work([12e-3, 11e-3], [0.9e-3, 1e-3], 10e-3) is not None


@pytest.mark.parametrize(
    ("time", "baselines", "found"),
    [(0.97, [2.0], False), (0.5, [2.0], True), (0.5, [0.6], False), (0.5, [], True), (0.85, [1.0, 2.0], False)],
)
def test_below_the_floor(time: float, baselines: list[float], found: bool) -> None:
    assert (clocks.below_floor(time, baselines, 1.0) is not None) is found


def test_single_calls_are_held_against_a_program_only_beyond_what_noise_does_to_a_baseline() -> None:
    calm, restless = [2e-5] * 9, [2e-5, 9e-4] * 5
    assert clocks.long_handshakes([2e-4] * 9, [calm], 1e-3) is None
    assert clocks.long_handshakes([2e-3] * 9, [calm], 1e-3) is not None
    assert clocks.long_handshakes([8e-4] * 9, [calm], 1e-4) is not None
    assert clocks.long_handshakes([8e-4] * 9, [calm, restless], 1e-4) is None
    assert clocks.long_handshakes([2e-4] * 9, [[-4e-4] * 9], 1e-3) is None
    assert clocks.long_handshakes([], [calm], 1e-4) is None
    assert clocks.long_handshakes([8e-4] * 9, [[]], 1e-4) is None


@given(time=seconds, baseline=seconds)
def test_the_same_bytes_may_be_handed_over_twice(time: float, baseline: float) -> None:
    assert clocks.unfinished_work([time + 5e-5] * 5, [time] * 5, baseline) is None
    assert clocks.unfinished_work([time] * 5, [time + 5e-3] * 5, baseline) is None


def test_work_that_is_left_for_the_first_handing_over_is_seen() -> None:
    calm = [3e-4, 3.1e-4, 3e-4, 3.2e-4, 3e-4]
    assert clocks.unfinished_work([t + 5e-4 for t in calm], calm, 4e-3) is not None
    assert clocks.unfinished_work([t + 5e-4 for t in calm], calm, 4e-2) is None
    assert clocks.unfinished_work([t + 5e-4 for t in calm], calm, 4e-3, [1e-5, 4e-4]) is None
    # One slow exchange is no evidence.
    assert clocks.unfinished_work([*calm[:1], 5e-3, 5e-3, 5e-3, 5e-3], calm, 4e-4) is None


def test_a_machine_on_which_everything_waits_accuses_nobody() -> None:
    assert clocks.late_work([1.8e-3], [0.0, 0.0, 0.0], 4e-4) is None
    assert clocks.unfinished_work([1.8e-3] * 5, [0.0] * 5, 4e-4) is None
