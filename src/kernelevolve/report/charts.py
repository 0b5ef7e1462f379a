"""Geometry of the charts: fitness over evaluations, and strips of raw time samples. All in SVG user units."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from kernelevolve.judge.verdict import Clock, Measurement, Samples
from kernelevolve.report.contents import Contents, NodeEntry
from kernelevolve.report.units import ratio_text, seconds_text

CHART_WIDTH, CHART_HEIGHT = 1080.0, 300.0
_LEFT, _RIGHT, _TOP, _BOTTOM = 56.0, 16.0, 14.0, 46.0
_STRIP_LEFT, _STRIP_RIGHT, _STRIP_ROW, _STRIP_AXIS = 150.0, 110.0, 34.0, 26.0
_STRIP_WIDTH = 1080.0


@dataclass(frozen=True, slots=True)
class Tick:
    """A grid line with its label."""

    at: float
    label: str
    strong: bool = False


@dataclass(frozen=True, slots=True)
class Dot:
    """One evaluation."""

    entry: NodeEntry
    x: float
    y: float


@dataclass(frozen=True, slots=True)
class FitnessChart:
    """Speed-up over the best baseline by evaluation, on a logarithmic axis."""

    dots: tuple[Dot, ...]
    failures: tuple[Dot, ...]
    """On a line of their own under the axis."""
    best_so_far: str
    """SVG path data of the staircase."""
    rows: tuple[Tick, ...]
    columns: tuple[Tick, ...]
    left: float
    right: float
    bottom: float
    radius: float
    """Of a dot: smaller where many would cover each other."""


def fitness_chart(contents: Contents) -> FitnessChart | None:
    """The chart; None before anything was judged."""
    entries = contents.entries
    if not entries:
        return None
    ratios = [e.ratio for e in entries if e.ratio is not None]
    low, high = min([*ratios, 1.0]), max([*ratios, 1.0])
    # A margin in the logarithm, and never less than ±5 %, so that a flat search is drawn flat.
    low, high = min(low / 1.04, 0.95), max(high * 1.04, 1.05)
    bottom, last = CHART_HEIGHT - _BOTTOM, max(1, len(entries) - 1)

    def x(number: int) -> float:
        return round(_LEFT + (CHART_WIDTH - _LEFT - _RIGHT) * number / last, 1)

    def y(ratio: float) -> float:
        return round(_TOP + (bottom - _TOP) * math.log(high / ratio) / math.log(high / low), 1)

    dots = tuple(Dot(e, x(e.node.id), y(e.ratio)) for e in entries if e.ratio is not None)
    failures = tuple(Dot(e, x(e.node.id), bottom + 11) for e in entries if e.ratio is None)
    stairs = ""
    for record in contents.records:
        level = y(record.ratio or 1.0)
        stairs += f"H{x(record.node.id)}V{level}" if stairs else f"M{x(record.node.id)} {level}"
    stairs += f"H{x(len(entries) - 1)}" if stairs else ""
    rows = tuple(Tick(y(r), ratio_text(r), strong=r == 1.0) for r in _ratio_ticks(low, high))
    step = max(1, _nice(len(entries) / 10))
    columns = tuple(Tick(x(n), str(n)) for n in range(0, len(entries), step))
    radius = 3.6 if len(entries) <= 300 else 1.8
    return FitnessChart(dots, failures, stairs, rows, columns, _LEFT, CHART_WIDTH - _RIGHT, bottom, radius)


@dataclass(frozen=True, slots=True)
class Strip:
    """All raw samples of one program on one workload."""

    program: str
    y: float
    height: float
    marks: str
    """SVG path data: one short stroke a sample, from the first block at the top to the last at the bottom."""
    median_x: float
    median: str
    beyond: int
    """Samples too slow for the axis; they are counted, not drawn."""


@dataclass(frozen=True, slots=True)
class StripPlot:
    """Programs timed side by side on one workload by one clock."""

    workload: str
    clock: Clock
    method: str
    strips: tuple[Strip, ...]
    ticks: tuple[Tick, ...]
    width: float
    height: float


def strip_plots(measurement: Measurement) -> tuple[StripPlot, ...]:
    """One plot a workload and clock, the candidate first."""
    groups: dict[tuple[str, Clock], list[Samples]] = {}
    for samples in measurement.samples:
        groups.setdefault((samples.workload, samples.clock), []).append(samples)
    return tuple(_strip_plot(workload, clock, group) for (workload, clock), group in groups.items())


def _strip_plot(workload: str, clock: Clock, group: Sequence[Samples]) -> StripPlot:
    group = sorted(group, key=lambda s: (s.program != "candidate", s.seconds))
    times = sorted(t for s in group for block in s.blocks for t in block)
    # The axis ends where the slowest program's usual samples do: one hiccup must not squeeze everything else.
    last = min(times[-1], 1.25 * max(_quantile(_flat(s), 0.95) for s in group))
    first = times[0]
    span = max(last - first, 0.02 * last)
    first, last = max(0.0, first - 0.04 * span), last + 0.04 * span
    inside = _STRIP_WIDTH - _STRIP_LEFT - _STRIP_RIGHT

    def x(seconds: float) -> float:
        return round(_STRIP_LEFT + inside * (seconds - first) / (last - first), 1)

    strips = []
    for row, samples in enumerate(group):
        top, height = row * _STRIP_ROW + 5, _STRIP_ROW - 10
        count = len(samples.blocks)
        mark = max(2.0, min(6.0, height / max(1, count)))
        marks, beyond = [], 0
        for block, sample in ((b, t) for b, times_ in enumerate(samples.blocks) for t in times_):
            if sample > last:
                beyond += 1
                continue
            y = top + (height - mark) * (block / max(1, count - 1) if count > 1 else 0.5)
            marks.append(f"M{x(sample)} {y:.1f}v{mark:.1f}")
        median = samples.seconds
        strips.append(
            Strip(samples.program, top, height, "".join(marks), x(min(median, last)), seconds_text(median), beyond)
        )
    ticks = tuple(Tick(x(t), seconds_text(t) if t else "0") for t in _linear_ticks(first, last, 6))
    height = len(group) * _STRIP_ROW + _STRIP_AXIS
    return StripPlot(workload, clock, group[0].method, tuple(strips), ticks, _STRIP_WIDTH, height)


def _flat(samples: Samples) -> list[float]:
    return sorted(t for block in samples.blocks for t in block)


def _quantile(ordered: Sequence[float], q: float) -> float:
    return ordered[min(len(ordered) - 1, int(q * len(ordered)))]


def _ratio_ticks(low: float, high: float) -> Iterable[float]:
    """Round ratios inside the range, 1 always among them; finer ones if the range is narrow."""
    fine = (0.8, 0.85, 0.9, 0.95, 1.0, 1.05, 1.1, 1.15, 1.2, 1.25, 1.3, 1.4, 1.5)
    medium = (0.25, 0.5, 0.75, 1.0, 1.25, 1.5, 1.75, 2.0, 2.5, 3.0)
    if high / low < 1.6:
        return [r for r in fine if low <= r <= high]
    if high / low < 5:
        return [r for r in medium if low <= r <= high]
    decades = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    steps = (1, 2, 5) if high / low < 200 else (1,)
    return [m * 10.0**d for d in decades for m in steps if low <= m * 10.0**d <= high]


def _linear_ticks(low: float, high: float, count: int) -> list[float]:
    raw = (high - low) / count
    power = 10.0 ** math.floor(math.log10(raw))
    step = next(m * power for m in (1, 2, 2.5, 5, 10) if m * power >= raw)
    return [n * step for n in range(math.ceil(low / step), math.floor(high / step) + 1)]


def _nice(number: float) -> int:
    """The next of 1, 2, 5, 10, 20, 50 …"""
    power = 10 ** max(0, math.floor(math.log10(max(number, 1))))
    return int(next(m * power for m in (1, 2, 5, 10) if m * power >= number))
