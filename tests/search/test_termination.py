"""When a search ends."""

from __future__ import annotations

import pytest

from kernelevolve.search.termination import (
    AnyOf,
    Condition,
    Evaluations,
    Exhausted,
    Progress,
    RooflineFraction,
    Seconds,
    Stagnation,
)


def at(
    evaluations: int = 10,
    seconds: float = 60.0,
    since_improvement: int = 3,
    roofline_fraction: float | None = 0.5,
    exhausted: bool = False,
) -> Progress:
    return Progress(evaluations, seconds, since_improvement, roofline_fraction, exhausted)


@pytest.mark.parametrize(
    ("condition", "before", "after", "sentence"),
    [
        (Evaluations(60), at(evaluations=59), at(evaluations=60), "all 60 evaluations are used"),
        (Seconds(90), at(seconds=89.9), at(seconds=90.0), "1.5 minutes are over"),
        (Evaluations(60, kept=3), at(evaluations=56), at(evaluations=57), "57 of 60 evaluations are used"),
        (Seconds(600, kept=180), at(seconds=419), at(seconds=420), "7 of 10 minutes are over"),
        (RooflineFraction(0.8), at(roofline_fraction=0.79), at(roofline_fraction=0.85), "85% of the roofline"),
        (RooflineFraction(0.8), at(roofline_fraction=None), at(roofline_fraction=0.8), "80% was asked for"),
        (Stagnation(20), at(since_improvement=19), at(since_improvement=20), "20 evaluations in a row"),
        (Exhausted(), at(), at(exhausted=True), "nothing new"),
    ],
)
def test_a_condition_ends_a_search_at_its_limit_and_says_why(
    condition: Condition, before: Progress, after: Progress, sentence: str
) -> None:
    assert condition.reason(before) is None
    reason = condition.reason(after)
    assert reason is not None
    assert sentence in reason


def test_any_of_takes_the_first_reason_and_the_nearest_end() -> None:
    condition = AnyOf((Evaluations(40), Seconds(600), Stagnation(5)))
    assert condition.reason(at()) is None
    assert condition.share(at(evaluations=10, seconds=60)) == 0.25
    assert condition.share(at(evaluations=2, seconds=300)) == 0.5
    assert condition.reason(at(seconds=700, since_improvement=9)) == "10 minutes are over"
    assert AnyOf(()).reason(at()) is None
    assert AnyOf(()).share(at()) == 0.0


@pytest.mark.parametrize(
    "condition", [Evaluations(40), Seconds(600), Stagnation(5), RooflineFraction(0.9), Exhausted()]
)
def test_a_share_is_a_share(condition: Condition) -> None:
    for evaluations, seconds in ((0, 0.0), (39, 599.0), (400, 6000.0)):
        assert 0 <= condition.share(at(evaluations=evaluations, seconds=seconds)) <= 1
