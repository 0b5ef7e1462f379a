"""Clocks: what speaks against a time and, as important, what does not."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kernelevolve.judge import clocks
from kernelevolve.judge.clocks import Bounds, Finding, Word

seconds = st.floats(1e-6, 1.0)
USUAL = [1e-4, 1.1e-4, 0.9e-4, 1e-4]


def exact(*values: float) -> list[Bounds]:
    """Measurements on a machine that made nobody wait."""
    return [Bounds(value, value) for value in values]


def word(finding: Finding | None) -> Word:
    return Word.FINE if finding is None else finding.word


@given(outer=seconds, shake=st.floats(0, 1.5e-4), noise=st.floats(0, 1.0))
def test_an_honest_clock_passes(outer: float, shake: float, noise: float) -> None:
    gaps = exact(shake + noise, shake, shake + noise)
    assert clocks.series_disagreement(gaps, USUAL, [outer] * 3) is None


@given(outer=st.floats(3e-3, 10.0), part=st.floats(0, 0.8))
def test_a_slow_clock_is_seen(outer: float, part: float) -> None:
    gaps = exact(*[outer * (1 - part) + 1e-4] * 3)
    assert word(clocks.series_disagreement(gaps, USUAL, [outer] * 3)) is Word.OFFENCE


def test_noise_of_the_baselines_excuses_and_their_absence_too() -> None:
    gaps, outer = exact(8e-4, 8e-4, 8e-4), [1e-3] * 3
    assert word(clocks.series_disagreement(gaps, USUAL, outer)) is Word.OFFENCE
    assert clocks.series_disagreement(gaps, [-1e-3, 1e-3, -1e-3, 1e-3], outer) is None
    assert clocks.series_disagreement(gaps, [], outer) is None
    # A hand-shake that was credited with more delay than it had is no evidence against the others.
    assert clocks.series_disagreement(exact(1e-4, 1e-4, 1e-4), [-4e-4] * 9, outer) is None


@given(
    true=st.floats(1e-5, 1e-2), waits=st.lists(st.tuples(st.floats(0, 0.1), st.floats(0, 0.1)), min_size=2, max_size=10)
)
def test_no_wait_for_processors_accuses_and_the_time_that_remains_acquits(
    true: float, waits: list[tuple[float, float]]
) -> None:
    """Each measurement was lengthened by no more than what the threads stood waiting, but perhaps by less."""
    values = [Bounds(true + cost - (cost + idle), true + cost) for cost, idle in waits]
    assert clocks.beyond(values, [true * 1.01] * len(values)) is not Word.OFFENCE
    assert clocks.beyond(values, [true * 0.99] * len(values)) is not Word.FINE


def test_few_calm_measurements_decide_among_many_disturbed_ones() -> None:
    disturbed = [Bounds(0.0, 9e-4), Bounds(0.0, 7e-4)]
    assert clocks.beyond([*disturbed, *exact(3.4e-4, 3.5e-4)], [3e-4] * 4) is Word.OFFENCE
    assert clocks.beyond([*disturbed, *exact(3.4e-4)], [3e-4] * 3) is Word.DISTURBED
    assert clocks.beyond(disturbed, [3e-4] * 2) is Word.DISTURBED
    assert clocks.beyond([*disturbed, *exact(2.9e-4)], [3e-4] * 3) is Word.FINE
    assert clocks.beyond(exact(3.4e-4), [3e-4]) is Word.OFFENCE


SPUN = [(13.47, 3.97), (23.20, 27.86), (17.91, 20.42), (20.62, 25.10), (33.93, 47.25), (36.86, 46.21), (16.34, 15.58)]
"""Milliseconds of series of 27 calls that take 0.35 ms each, and what all threads waited: five others on two cores."""


def test_a_halved_clock_is_not_believed_however_busy_the_machine() -> None:
    """Recorded of ``005_small_calls_halved``: with the delays taken off, some of these series are short enough."""
    series = [Bounds(max(0.0, outer - stood) / 27e3, outer / 27e3) for outer, stood in SPUN]
    assert word(clocks.cold_below_series(191e-6, series, [27] * 7)) is Word.DISTURBED
    calm = exact(336e-6, 341e-6)
    assert word(clocks.cold_below_series(183e-6, calm, [27, 27])) is Word.OFFENCE
    assert word(clocks.cold_below_series(191e-6, [*series[:2], *exact(*[345e-6] * 4)], [27, 27, 9, 9, 9, 9])) is (
        Word.OFFENCE
    )
    # What really takes as long as it says passes with them, if one of them is calm.
    assert clocks.cold_below_series(352e-6, series, [27] * 7) is None


def test_a_busy_machine_neither_confirms_nor_denies_single_calls() -> None:
    """Recorded of ``005_short_calls_halved``: 21 ms said of 42, beside a baseline's true clock."""
    honest = [5.6e-4, 5.7e-4, 2.8e-3, 4.0e-3, 7e-4, 5.5e-3, 4.7e-4]
    halved = [2.1e-2, 2.4e-2, 2.0e-2, 3.5e-2, 2.2e-2]
    assert clocks.unconfirmed_handshakes(honest, [honest], 4.2e-2) is None
    assert word(clocks.unconfirmed_handshakes(halved, [honest], 2.1e-2)) is Word.DISTURBED
    assert clocks.unconfirmed_handshakes(halved, [], 2.1e-2) is None


@given(single=seconds, calls=st.integers(1, 256))
def test_cold_calls_may_take_longer_but_not_less(single: float, calls: int) -> None:
    series = exact(single + 5e-5 / calls, single * 2, single * 3)
    assert clocks.cold_below_series(single, series, [calls] * 3) is None
    if single * calls > 2e-3:
        assert word(clocks.cold_below_series(single / 2, series, [calls] * 3)) is Word.OFFENCE


def test_late_work() -> None:
    assert clocks.late_work(exact(0.2, 1e-3), exact(0.9e-3, 1e-3), 5e-3) is None
    assert clocks.late_work(exact(12e-3, 11e-3), exact(0.9e-3, 1e-3), 10e-3) is not None


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


def twice(first: list[float], again: list[float]) -> list[tuple[Bounds, Bounds]]:
    return list(zip(exact(*first), exact(*again), strict=True))


@given(time=seconds, baseline=seconds)
def test_the_same_bytes_may_be_handed_over_twice(time: float, baseline: float) -> None:
    assert clocks.unfinished_work(twice([time + 5e-5] * 5, [time] * 5), baseline) is None
    assert clocks.unfinished_work(twice([time] * 5, [time + 5e-3] * 5), baseline) is None


def test_work_that_is_left_for_the_first_handing_over_is_seen() -> None:
    calm = [3e-4, 3.1e-4, 3e-4, 3.2e-4, 3e-4]
    late = twice([t + 5e-4 for t in calm], calm)
    assert clocks.unfinished_work(late, 4e-3) is not None
    assert clocks.unfinished_work(late, 4e-2) is None
    assert clocks.unfinished_work(late, 4e-3, twice([4.1e-4, 8e-4], [4e-4, 4e-4])) is None
    # One slow exchange is no evidence.
    assert clocks.unfinished_work(twice([*calm[:1], 5e-3, 5e-3, 5e-3, 5e-3], calm), 4e-4) is None


def test_a_machine_on_which_everything_waits_accuses_nobody() -> None:
    waited = Bounds(0.0, 1.8e-3)
    assert clocks.late_work(exact(1.8e-3), [waited] * 3, 4e-4) is None
    assert clocks.unfinished_work([(Bounds(1.8e-3, 1.8e-3), waited)] * 5, 4e-4) is None
    # A baseline's second time was shortened by more than its first: it says nothing of how much longer a first one is.
    assert clocks.unfinished_work(twice([2e-3] * 5, [1e-3] * 5), 4e-4, [(Bounds(1.8e-3, 1.8e-3), waited)]) is None
