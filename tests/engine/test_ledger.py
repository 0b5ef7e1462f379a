"""Ledger: no budget is overshot, whatever is in flight, and time adds up over processes."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kernelevolve.search.ledger import Account, Budget, Ledger


class Clock:
    """A clock that a test moves."""

    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


@given(st.integers(1, 20), st.integers(0, 5), st.lists(st.sampled_from(["commit", "settle", "release"]), max_size=60))
def test_spent_and_promised_never_exceed_the_limit(limit: int, keep: int, moves: list[str]) -> None:
    account = Account(limit)
    for move in moves:
        if move == "commit":
            allowed = account.spent + account.committed + keep < limit
            assert account.commit(keep=keep) is allowed
        elif account.committed:
            account.settle() if move == "settle" else account.release()
        assert account.spent + account.committed <= max(0, limit - keep)


def test_ending_work_that_was_never_promised_is_a_fault() -> None:
    with pytest.raises(RuntimeError):
        Account(3).settle()


def test_a_promise_given_back_can_be_made_again() -> None:
    account = Account(1)
    assert account.commit()
    assert not account.commit()
    account.release()
    assert account.commit()


def test_time_of_earlier_processes_counts_and_pauses_do_not() -> None:
    clock = Clock()
    budget = Budget(evaluations=10, seconds=60)
    first = Ledger(budget, clock=clock)
    first.evaluations.commit()
    first.evaluations.settle()
    first.evaluations.commit()
    first.count_trial()
    first.count_device_seconds(2.5)
    clock.now += 20
    saved = first.state_dict()
    clock.now += 1000
    second = Ledger(budget, saved, clock=clock)
    assert second.seconds == 20
    assert second.deadline(50) == clock.now + 30
    clock.now += 5
    reading = second.reading()
    assert (reading.evaluations, reading.in_flight, reading.trials, reading.seconds, reading.device_seconds) == (
        1, 0, 1, 25, 2.5,
    )  # fmt: skip


@pytest.mark.parametrize(("evaluations", "kept"), [(1, 0), (9, 0), (10, 1), (25, 2), (60, 3), (500, 3)])
def test_finalists_keep_a_tenth_at_most_three(evaluations: int, kept: int) -> None:
    assert Budget(evaluations=evaluations, seconds=1).kept_evaluations == kept
