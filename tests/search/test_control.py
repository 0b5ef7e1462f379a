"""The control: what independent drafts alone would have reached."""

from __future__ import annotations

import math
import random
from collections.abc import Sequence
from statistics import fmean

import pytest
from landscape import Landscape

from kernelevolve.judge.verdict import VerdictKind
from kernelevolve.search.control import best_of_n
from kernelevolve.search.graph import SearchGraph
from kernelevolve.search.node import Node


def graph_of(drafts: Sequence[float], children: int = 0) -> SearchGraph:
    """Drafts of these values of fitness (-inf: failed), and children that the control must not look at."""
    graph = SearchGraph()
    for number, fitness in enumerate([*drafts, *[99.0] * children]):
        kind = VerdictKind.CORRECT if math.isfinite(fitness) else VerdictKind.WRONG
        parents = () if number < len(drafts) else (0,)
        graph.insert(Node(number, "", parents, "", kind, fitness, "", len(parents)))
    return graph


def test_children_do_not_count_and_a_run_of_drafts_alone_is_its_own_control() -> None:
    drafts = [0.1, 0.4, -math.inf, 0.3, 0.2, 0.0, 0.25]
    found = best_of_n(graph_of(drafts))
    assert (found.drafts, found.best_draft, found.estimate) == (7, 0.4, 0.4)
    assert best_of_n(graph_of(drafts, children=50)).best_draft == 0.4


def test_more_drafts_would_reach_more_but_not_without_bound() -> None:
    drafts = [0.1, 0.4, -math.inf, 0.3, 0.2, 0.0, 0.25]
    estimates = [best_of_n(graph_of(drafts, children)).estimate for children in (0, 10, 50, 500, 5000)]
    assert estimates == sorted(set(estimates))
    assert 0.4 < estimates[2] < 0.6
    assert estimates[-1] < 0.4 + 8 * 0.9 * 0.15


@pytest.mark.parametrize("drafts", [[0.3], [0.1, 0.2, 0.3], [-math.inf] * 9 + [0.3], [0.3] * 8])
def test_nothing_is_extrapolated_from_few_or_equal_drafts(drafts: list[float]) -> None:
    assert best_of_n(graph_of(drafts, children=40)).estimate == 0.3


@pytest.mark.parametrize("drafts", [[], [-math.inf, -math.inf]])
def test_without_a_correct_draft_the_control_reaches_nothing(drafts: list[float]) -> None:
    found = best_of_n(graph_of(drafts)) if not drafts else best_of_n(graph_of(drafts, children=3))
    assert found.estimate == found.best_draft == -math.inf


def test_the_estimate_has_less_bias_than_the_best_draft() -> None:
    bias: dict[str, list[float]] = {"estimate": [], "best draft": []}
    for seed in range(60):
        landscape, rng = Landscape(seed, failing=0.02), random.Random(seed)

        def draft(landscape: Landscape = landscape, rng: random.Random = rng) -> float:
            return landscape.fitness(tuple(rng.randrange(size) for size in landscape.sizes))

        truth = fmean(max(draft() for _ in range(60)) for _ in range(20))
        found = best_of_n(graph_of([draft() for _ in range(12)], children=48))
        if math.isfinite(found.estimate):
            bias["estimate"].append(found.estimate - truth)
            bias["best draft"].append(found.best_draft - truth)
    assert len(bias["estimate"]) > 50
    assert abs(fmean(bias["estimate"])) < 0.5 * abs(fmean(bias["best draft"]))
