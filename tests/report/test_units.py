"""Numbers as people read them."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kernelevolve.judge.verdict import Clock, Speedup
from kernelevolve.report.units import amount_text, duration_text, seconds_text, share_text, speedup_text

SCALE = {"ns": 1e-9, "µs": 1e-6, "ms": 1e-3, "s": 1.0}


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (8.5e-7, "850 ns"), (1.234e-5, "12.3 µs"), (4.563e-3, "4.56 ms"), (1.2, "1.20 s"), (None, "–"),
        (999.96e-6, "1.00 ms"), (99.97e-6, "100 µs"),
    ],
)  # fmt: skip
def test_a_time_gets_the_unit_that_fits(seconds: float | None, text: str) -> None:
    assert seconds_text(seconds) == text


@given(st.floats(min_value=1e-8, max_value=900))
def test_a_time_as_shown_is_within_half_a_unit_of_the_third_digit(seconds: float) -> None:
    found = re.fullmatch(r"([\d.]+) (ns|µs|ms|s)", seconds_text(seconds))
    assert found is not None
    number, unit = found.groups()
    assert float(number) * SCALE[unit] == pytest.approx(seconds, rel=0.006)
    assert len(number.replace(".", "")) == 3  # no digits that the measurement does not have


def test_a_speedup_is_never_shown_without_its_interval() -> None:
    speedup = Speedup(baseline="eager", clock=Clock.WALL, value=1.5234, low=1.478, high=1.571)
    assert speedup_text(speedup) == "1.52× [1.48, 1.57]"


def test_shares_durations_and_amounts() -> None:
    assert [share_text(f) for f in (0.794, 0.0123, 1.0, None)] == ["79 %", "1.2 %", "100 %", "–"]
    assert [duration_text(s) for s in (7.6, 125, 5400)] == ["8 s", "2 min 05 s", "1 h 30 min"]
    assert [amount_text(a, "B") for a in (12, 16_777_216, 999_800)] == ["12 B", "16.8 MB", "1.00 MB"]
