"""Fitness: how good a judged candidate is, on a log scale, so that improvements add up."""

from __future__ import annotations

import math

from kernelevolve.judge.verdict import Clock, Verdict

_WORST = float("-inf")


def fitness(verdict: Verdict) -> float:
    """log(time of the fastest baseline / time of the candidate); 0 is the baseline, -inf is wrong or was not timed.

    Both times come from the same interleaved session where the baselines were part of it.
    """
    if not verdict.correct or verdict.measurement is None:
        return _WORST
    clocks = {s.clock for s in verdict.measurement.speedups}
    clock = Clock.DEVICE if Clock.DEVICE in clocks else Clock.WALL
    ratios = [s.value for s in verdict.measurement.speedups if s.clock is clock]
    return math.log(min(ratios)) if ratios else _WORST


def improvement(parent: float, child: float) -> float:
    """The reward of a step: max(0, log(parent time / child time)), by the fitness of both.

    A step from something that failed, or from nothing, is rewarded for what it gains over the baseline.
    """
    if child == _WORST:
        return 0.0
    return max(0.0, child - (parent if parent != _WORST else 0.0))
