"""Suspicion: the rules on clocks, put to what was taken of a candidate and its baselines."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from kernelevolve.judge import clocks
from kernelevolve.judge.series import SeriesSession
from kernelevolve.judge.timing import Contestant
from kernelevolve.workers.messages import ClockName


def of_times(
    candidate: Contestant, others: Sequence[Contestant], usual: Mapping[str, float], clock: ClockName, floor: float
) -> str | None:
    """What speaks against single calls, or None.

    ``usual`` are seconds of baselines that are not timed here, ``floor`` is the least in which the device can do it.
    """
    baselines = [*usual.values(), *(contestant.median(clock) for contestant in others)]
    return clocks.below_floor(candidate.median(clock), baselines, floor) or clocks.long_handshakes(
        candidate.handshakes, [other.handshakes for other in others], candidate.median("wall")
    )


def of_series(series: SeriesSession) -> str | None:
    """What the judge's own clock says against the candidate's times, or None."""
    candidate = series.candidate
    mine = series.taken[candidate.name]
    reason = clocks.series_disagreement(
        [taken.gap for taken in mine], series.usual_gaps, min(taken.outer for taken in mine)
    ) or clocks.cold_below_series(candidate.median(series.clock), series.seconds(candidate.name), series.calls)
    fastest = series.fastest
    if reason is not None or fastest is None:
        return reason
    seconds = fastest.median("wall") * series.calls
    ours, theirs = series.hand_overs[candidate.name], series.hand_overs[fastest.name]
    first = [taken.first for taken in ours]
    return clocks.late_work(first, [taken.first for taken in theirs], seconds) or clocks.unfinished_work(
        first, [taken.again for taken in ours], seconds, [taken.first - taken.again for taken in theirs]
    )
