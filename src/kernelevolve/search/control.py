"""Control: what independent drafts alone would have reached with the same number of evaluations. Always *estimated*."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean, quantiles, stdev

from kernelevolve.search.graph import SearchGraph

_ENOUGH = 5
"""Correct drafts from which on something is said about drafts that were not made."""
_STEPS = 400
_REACH = 8.0
"""Bandwidths beyond the best draft at which the density of a further draft is negligible."""


@dataclass(frozen=True, slots=True)
class BestOfN:
    """The control of a search."""

    drafts: int
    """Independent drafts that were judged."""
    best_draft: float
    """Fitness of the best of them (measured by the judge); -inf if none is correct."""
    estimate: float
    """Expected fitness of the best of as many drafts as the search had evaluations (estimated)."""


def best_of_n(graph: SearchGraph) -> BestOfN:
    """What best-of-n would have reached: the best of the drafts in the graph and of as many more as make n in all.

    With five or more correct drafts those not made are thought to be drawn as these were: failing as often, and if
    correct, from a Gaussian kernel density of their fitness (log speed-up) with Silverman's bandwidth (1986, eq. 3.31).
    With fewer drafts the estimate is the best draft itself, so it is a lower one.
    """
    values = [graph[number].fitness for number in graph.roots]
    correct = [value for value in values if math.isfinite(value)]
    if not correct:
        return BestOfN(len(values), -math.inf, -math.inf)
    estimate = max(correct)
    if len(correct) >= _ENOUGH:
        estimate += _expected_gain(correct, len(correct) / len(values), len(graph) - len(values))
    return BestOfN(len(values), max(correct), estimate)


def _expected_gain(correct: Sequence[float], success: float, further: int) -> float:
    """Expected excess of the best of ``further`` draws over the best value: the integral of 1 - F^further above it."""
    low, _, high = quantiles(correct, n=4, method="inclusive")
    spread = min(stdev(correct), (high - low) / 1.34) or stdev(correct)
    bandwidth = 0.9 * spread * math.pow(len(correct), -0.2)
    if bandwidth == 0:
        return 0.0
    step = _REACH * bandwidth / _STEPS
    middles = (max(correct) + (i + 0.5) * step for i in range(_STEPS))
    exceeded = (success * fmean(_upper_tail((x - value) / bandwidth) for value in correct) for x in middles)
    return step * math.fsum(1 - math.pow(1 - share, further) for share in exceeded)


def _upper_tail(z: float) -> float:
    """Probability that a standard normal variable exceeds ``z``."""
    return 0.5 * math.erfc(z / math.sqrt(2))
