"""Charts: what is measured is what is drawn."""

from __future__ import annotations

import re
from itertools import pairwise
from pathlib import Path

import pytest

from kernelevolve.judge.verdict import Clock, Measurement, Samples
from kernelevolve.report.charts import CHART_HEIGHT, CHART_WIDTH, fitness_chart, strip_plots
from kernelevolve.report.contents import collect
from stored_runs import make_run


@pytest.mark.parametrize("count", [1, 2, 60, 400])
def test_every_evaluation_is_one_mark_inside_the_chart(tmp_path: Path, count: int) -> None:
    chart = fitness_chart(collect(make_run(tmp_path, count)))
    assert chart is not None
    marks = [*chart.dots, *chart.failures]
    assert sorted(m.entry.node.id for m in marks) == list(range(count))
    assert all(0 <= m.x <= CHART_WIDTH and 0 <= m.y <= CHART_HEIGHT for m in marks)
    assert any(tick.strong for tick in chart.rows)  # the best baseline is always on the axis


def test_faster_is_higher_and_the_staircase_ends_at_the_best(tmp_path: Path) -> None:
    contents = collect(make_run(tmp_path, 60))
    chart = fitness_chart(contents)
    assert chart is not None
    ordered = sorted(chart.dots, key=lambda dot: dot.entry.node.fitness)
    assert all(a.y >= b.y for a, b in pairwise(ordered))
    levels = [float(v) for v in re.findall(r"V([\d.]+)", chart.best_so_far)]
    assert levels == sorted(levels, reverse=True)
    assert levels[-1] == ordered[-1].y


def plot(samples: dict[str, tuple[tuple[float, ...], ...]]) -> Measurement:
    return Measurement(
        samples=tuple(
            Samples(program=n, workload="w", clock=Clock.WALL, method="m", blocks=b) for n, b in samples.items()
        )
    )


def test_a_strip_has_one_stroke_a_sample_and_the_candidate_is_first() -> None:
    (strips,) = strip_plots(plot({"eager": ((2e-3, 2.1e-3), (2.2e-3,)), "candidate": ((1e-3,), (1.1e-3,))}))
    assert [s.program for s in strips.strips] == ["candidate", "eager"]
    assert [s.marks.count("M") + s.beyond for s in strips.strips] == [2, 3]
    assert strips.strips[0].median_x < strips.strips[1].median_x


def test_a_hiccup_does_not_squeeze_the_axis_and_is_counted() -> None:
    usual = tuple((1e-3 + 1e-6 * i,) for i in range(60))
    (strips,) = strip_plots(plot({"candidate": (*usual, (1.0,)), "eager": usual}))
    candidate = strips.strips[0]
    assert candidate.beyond == 1
    assert candidate.marks.count("M") == 60
    xs = [float(x) for x in re.findall(r"M([\d.]+) ", candidate.marks)]
    assert max(xs) - min(xs) > 100


def test_equal_times_are_drawn_too() -> None:
    (strips,) = strip_plots(plot({"candidate": ((1e-3, 1e-3),), "eager": ((1e-3,),)}))
    assert [s.marks.count("M") for s in strips.strips] == [2, 1]
