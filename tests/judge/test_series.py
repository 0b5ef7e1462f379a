"""Outputs of a series that repeat an earlier one are found, whatever else they are."""

from __future__ import annotations

import random

import pytest
import torch

from kernelevolve.judge.series import much_alike


def outputs(count: int = 6, shape: tuple[int, ...] = (20, 30), seed: int = 0) -> dict[int, dict[str, torch.Tensor]]:
    generator = torch.Generator().manual_seed(seed)
    return {call: {"0": torch.randn(shape, generator=generator)} for call in range(count)}


@pytest.mark.parametrize("disguise", [0.0, 1e-3, 0.03])
@pytest.mark.parametrize("seed", range(5))
def test_the_later_of_two_that_are_alike_is_named(disguise: float, seed: int) -> None:
    made = outputs(seed=seed)
    made[4] = {"0": made[2]["0"] * (1 + disguise)}
    assert much_alike(made, random.Random(seed)) == 4


@pytest.mark.parametrize("seed", range(20))
def test_results_of_different_inputs_are_not_alike(seed: int) -> None:
    assert much_alike(outputs(64, seed=seed), random.Random(seed)) is None


def test_numbers_of_calls_are_kept_where_some_are_missing() -> None:
    made = {3 * call: output for call, output in outputs().items()}
    made[15] = made[6]
    assert much_alike(made, random.Random(1)) == 15


def test_infinite_and_undefined_elements_count_as_numbers() -> None:
    made = outputs()
    for output in made.values():
        output["0"][::2] = float("inf")
        output["0"][1::4] = float("nan")
    assert much_alike(made, random.Random(2)) is None
    made[5] = made[1]
    assert much_alike(made, random.Random(2)) == 5


@pytest.mark.parametrize(
    "made",
    [outputs(2), outputs(shape=(7,)), {call: {"0": torch.arange(100)} for call in range(5)}],
    ids=["two calls", "few elements", "integers"],
)
def test_what_says_nothing_is_left_alone(made: dict[int, dict[str, torch.Tensor]]) -> None:
    assert much_alike(made, random.Random(3)) is None
