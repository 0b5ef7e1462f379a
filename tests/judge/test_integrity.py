"""Side effects: what is a finding and, as important, what is not."""

from __future__ import annotations

import torch
from hypothesis import given
from hypothesis import strategies as st

from kernelevolve.judge import integrity


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
