"""Side effects and clocks: what is a finding and, as important, what is not."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from kernelevolve.judge import integrity
from kernelevolve.judge.session import Call

seconds = st.floats(1e-6, 1.0)


def bursts(*times: tuple[float, float], device: float | None = None) -> list[Call]:
    return [Call("k", wall, device, outer) for wall, outer in times]


def test_same_bytes() -> None:
    x = torch.tensor([1.0, float("nan"), -0.0])
    assert integrity.same_bytes(x, x.clone())
    assert not integrity.same_bytes(x, torch.tensor([1.0, float("nan"), 1e-45]))
    assert integrity.same_bytes(torch.tensor(float("nan")), torch.tensor(float("nan")))
    assert not integrity.same_bytes(torch.tensor([1, 2]), torch.tensor([1, 3]))


@given(index=st.integers(0, 11), transposed=st.booleans())
def test_one_changed_element_is_seen(index: int, transposed: bool) -> None:
    before = torch.zeros(3, 4).t() if transposed else torch.zeros(4, 3)
    after = before.clone()
    after[index // 3, index % 3] = 1e-30
    assert integrity.changed_inputs(([before],), ([after],), frozenset()) == ["0.0"]
    assert integrity.changed_inputs(([before],), ([after],), frozenset({"0.0"})) == []


def test_effects_of_a_reference() -> None:
    class Model(torch.nn.Module):
        def forward(self, x: torch.Tensor, y: torch.Tensor) -> tuple[object, ...]:
            y.add_(1)
            return x.t(), x + y, None

    x, y = torch.ones(2, 3), torch.ones(2, 3)
    effects = integrity.reference_effects(Model(), (x, y))
    assert effects.aliases == {"0"} and effects.mutates == {"1"} and effects.plain == {"2": None}
    assert torch.equal(y, torch.ones(2, 3))


@given(wall=seconds, handshake=st.floats(0, 1e-3))
def test_an_honest_clock_passes(wall: float, handshake: float) -> None:
    noisy = (wall, wall + handshake + 0.1)
    assert integrity.clock_disagreement(bursts(noisy, (wall, wall + handshake), noisy)) is None


def test_a_busy_machine_neither_hides_nor_makes_a_false_clock() -> None:
    calm, busy = Call("k", 20e-3, None, 41e-3, delayed=0.5e-3), Call("k", 20e-3, None, 90e-3, delayed=69e-3)
    assert integrity.clock_disagreement([busy, busy, calm]) is not None
    honest = Call("k", 20e-3, None, 90e-3, waited=50e-3, delayed=69.9e-3)
    assert integrity.clock_disagreement([honest, honest, honest]) is None


@given(outer=st.floats(4e-3, 10.0), part=st.floats(0, 0.5))
def test_a_slow_clock_is_seen(outer: float, part: float) -> None:
    assert integrity.clock_disagreement(bursts(*[(outer * part, outer)] * 3)) is not None


def test_work_outside_the_events_is_seen() -> None:
    assert integrity.clock_disagreement(bursts((10e-3, 10.1e-3), device=9.9e-3)) is None
    assert integrity.clock_disagreement(bursts((10e-3, 10.1e-3), device=5e-3)) is not None


@given(single=seconds)
def test_cold_calls_may_take_longer_but_not_less(single: float) -> None:
    repeats = integrity.burst_repeats(single)
    warm = bursts(*[(single * repeats, single * repeats + 1e-4)] * 3)
    assert integrity.cold_below_warm([single, 2 * single, single], warm, repeats) is None
    if single * repeats > 9e-3:
        assert integrity.cold_below_warm([single / 2.5] * 3, warm, repeats) is not None


@given(time=seconds)
def test_bursts_are_long_against_a_handshake(time: float) -> None:
    assert integrity.burst_repeats(time) * time >= 0.99 * min(integrity.BURST_SECONDS, 1000 * time)


def test_late_work() -> None:
    assert integrity.late_work([0.2, 1e-3], [0.9e-3, 1e-3], 5e-3) is None
    assert integrity.late_work([12e-3, 11e-3], [0.9e-3, 1e-3], 10e-3) is not None


@pytest.mark.parametrize(
    ("time", "baselines", "found"),
    [(0.97, [2.0], False), (0.5, [2.0], True), (0.5, [0.6], False), (0.5, [], True)],
)
def test_below_the_floor(time: float, baselines: list[float], found: bool) -> None:
    assert (integrity.below_floor(time, baselines, 1.0) is not None) is found


def test_single_calls_are_held_against_a_program_only_beyond_what_noise_does_to_a_baseline() -> None:
    calm, restless = [2e-5] * 9, [2e-5, 9e-4] * 5
    assert integrity.long_handshakes([2e-4] * 9, [calm], 1e-3) is None
    assert integrity.long_handshakes([2e-3] * 9, [calm], 1e-3) is not None
    assert integrity.long_handshakes([8e-4] * 9, [calm], 1e-4) is not None
    assert integrity.long_handshakes([8e-4] * 9, [calm, restless], 1e-4) is None
    # A hand-shake that was credited with more delay than it had is no evidence against the others.
    assert integrity.long_handshakes([4e-4] * 9, [[-4e-4] * 9], 1e-4) is None
    assert integrity.long_handshakes([], [calm], 1e-4) is None
    assert integrity.long_handshakes([8e-4] * 9, [[]], 1e-4) is None


@given(time=seconds, baseline=seconds)
def test_the_same_bytes_may_be_handed_over_twice(time: float, baseline: float) -> None:
    assert integrity.unfinished_work([time + 5e-5] * 5, [time] * 5, baseline) is None
    assert integrity.unfinished_work([time] * 5, [time + 5e-3] * 5, baseline) is None


def test_work_that_is_left_for_the_first_handing_over_is_seen() -> None:
    calm = [3e-4, 3.1e-4, 3e-4, 3.2e-4, 3e-4]
    assert integrity.unfinished_work([t + 5e-4 for t in calm], calm, 4e-4) is not None
    assert integrity.unfinished_work([t + 5e-4 for t in calm], calm, 4e-3) is None
    # One slow exchange is no evidence.
    assert integrity.unfinished_work([*calm[:1], 5e-3, 5e-3, 5e-3, 5e-3], calm, 4e-4) is None


def test_what_a_call_leaves_in_its_inputs() -> None:
    want = {"0": torch.tensor([1.0, 2.0, float("nan")])}
    assert integrity.left_unchanged(want, (torch.tensor([1.0, 2.0 + 2e-7, float("nan")]),)) is None
    assert integrity.left_unchanged(want, (torch.tensor([1.0, 2.1, float("nan")]),)) == "0"
    assert integrity.left_unchanged(want, (torch.tensor([1.0, 2.0, 3.0]),)) == "0"
    assert integrity.left_unchanged({"0": torch.tensor([1])}, (torch.tensor([2]),)) == "0"


def test_parts_of_a_result_that_are_no_tensors() -> None:
    class Model(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> tuple[object, ...]:
            return x, x.shape[0], float(x.sum()), "text", None

    effects = integrity.reference_effects(Model(), (torch.ones(2),), (torch.zeros(2),))
    assert effects.fixed == {"1", "3", "4"}
    assert integrity.same_plain(0.5, 0.5 + 1e-9) and not integrity.same_plain(1, True)


def test_what_calls_in_training_mode_leave_behind() -> None:
    before = {"mean": torch.zeros(4), "count": torch.tensor(0), "weight": torch.ones(4)}
    after = {"mean": torch.full((4,), 0.1), "count": torch.tensor(2), "weight": torch.ones(4)}
    close = {**after, "mean": after["mean"] + 1e-5}
    assert integrity.wrong_state(before, after, close) is None
    assert integrity.wrong_state(before, after, before) == "mean"
    assert integrity.wrong_state(before, after, {**after, "count": torch.tensor(1)}) == "count"
    assert integrity.wrong_state(before, after, {**after, "weight": torch.full((4,), 1.0000001)}) == "weight"


def test_a_machine_on_which_everything_waits_accuses_nobody() -> None:
    assert integrity.late_work([1.8e-3], [0.0, 0.0, 0.0], 4e-4) is None
    assert integrity.unfinished_work([1.8e-3] * 5, [0.0] * 5, 4e-4) is None
