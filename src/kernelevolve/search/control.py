"""Control: what independent drafts alone would have reached with the same number of evaluations. Always *estimated*."""

from __future__ import annotations

import math
from dataclasses import dataclass

from kernelevolve.search.graph import SearchGraph


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
    """What best-of-n would have reached.

    The drafts of the search are a sample from what drafting gives. The expected largest of n draws from m values
    x(1) <= … <= x(m) is the sum of x(i) ((i/m)^n - ((i-1)/m)^n). Failed drafts count as draws that lose; with fewer
    drafts than evaluations the estimate cannot exceed the best draft seen, so it is a lower one.
    """
    values = sorted(graph[number].fitness for number in graph.roots)
    m, n = len(values), len(graph)
    if not values or not math.isfinite(values[-1]):
        return BestOfN(m, float("-inf"), float("-inf"))
    worst = min(v for v in values if math.isfinite(v))
    finite = [v if math.isfinite(v) else worst for v in values]
    estimate = sum(x * ((i / m) ** n - ((i - 1) / m) ** n) for i, x in enumerate(finite, start=1))
    return BestOfN(m, values[-1], estimate)
