"""Fitness of a verdict, and the reward of a step."""

from __future__ import annotations

import math

import pytest

from kernelevolve.judge.verdict import Clock, Effort, Measurement, Speedup, Stage, Verdict, VerdictKind
from kernelevolve.search.fitness import fitness, improvement


def verdict(kind: VerdictKind, *speedups: tuple[str, Clock, float]) -> Verdict:
    return Verdict(
        candidate_id="c",
        kind=kind,
        stage=Stage.TIMING,
        effort=Effort.SCREEN,
        measurement=Measurement(
            samples=(),
            speedups=tuple(Speedup(baseline=b, clock=c, value=v, low=v, high=v) for b, c, v in speedups),
        ),
    )


def test_fitness_is_the_log_speed_up_over_the_fastest_baseline() -> None:
    found = fitness(verdict(VerdictKind.CORRECT, ("eager", Clock.WALL, 4.0), ("compile", Clock.WALL, 2.0)))
    assert found == pytest.approx(math.log(2.0))


def test_device_time_counts_where_there_is_one() -> None:
    found = verdict(VerdictKind.CORRECT, ("eager", Clock.WALL, 1.0), ("eager", Clock.DEVICE, 3.0))
    assert fitness(found) == pytest.approx(math.log(3.0))


@pytest.mark.parametrize("kind", [kind for kind in VerdictKind if kind is not VerdictKind.CORRECT])
def test_whatever_is_not_correct_has_no_fitness(kind: VerdictKind) -> None:
    assert fitness(verdict(kind, ("eager", Clock.WALL, 4.0))) == -math.inf


def test_a_correct_candidate_that_was_not_timed_has_no_fitness() -> None:
    assert fitness(verdict(VerdictKind.CORRECT)) == -math.inf


@pytest.mark.parametrize(
    ("parent", "child", "reward"),
    [(0.5, 0.8, 0.3), (0.5, 0.2, 0.0), (0.5, -math.inf, 0.0), (-math.inf, 0.4, 0.4), (-math.inf, -0.4, 0.0)],
)
def test_a_step_is_rewarded_for_what_it_gains(parent: float, child: float, reward: float) -> None:
    assert improvement(parent, child) == pytest.approx(reward)
