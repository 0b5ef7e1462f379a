"""Suspicion: the rules on clocks, put to what was taken of a candidate and its baselines."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from kernelevolve.judge import clocks
from kernelevolve.judge.clocks import Finding, Word
from kernelevolve.judge.series import SeriesSession
from kernelevolve.judge.timing import Contestant
from kernelevolve.workers.messages import ClockName


def of_times(
    candidate: Contestant, others: Sequence[Contestant], usual: Mapping[str, float], clock: ClockName, floor: float
) -> Finding | None:
    """What speaks against single calls, or None.

    ``usual`` are seconds of baselines that are not timed here, ``floor`` is the least in which the device can do it.
    """
    baselines = [*usual.values(), *(contestant.median(clock) for contestant in others)]
    reason = clocks.below_floor(candidate.median(clock), baselines, floor) or clocks.long_handshakes(
        candidate.handshakes, [other.handshakes for other in others], candidate.median("wall")
    )
    if reason is not None:
        return Finding(Word.OFFENCE, reason)
    return clocks.unconfirmed_handshakes(candidate.gaps, [other.gaps for other in others], candidate.median("wall"))


def of_series(series: SeriesSession) -> Finding | None:
    """What the judge's own clock says against the candidate's times, or None."""
    candidate = series.candidate
    mine = series.taken[candidate.name]
    found = [
        clocks.series_disagreement([taken.gap for taken in mine], series.usual_gaps, [taken.outer for taken in mine]),
        clocks.cold_below_series(
            candidate.median(series.clock), series.seconds(candidate.name), [taken.calls for taken in mine]
        ),
        *(_of_hand_overs(series, calls) for calls in {taken.calls for taken in mine}),
    ]
    present = [finding for finding in found if finding is not None]
    return min(present, key=lambda finding: finding.word is not Word.OFFENCE, default=None)


def _of_hand_overs(series: SeriesSession, calls: int) -> Finding | None:
    """What the handing over of the outputs of series of so many calls says."""
    candidate, fastest = series.candidate, series.fastest
    if fastest is None:
        return None
    seconds = fastest.median("wall") * calls
    ours, theirs = (
        [taken for taken in series.hand_overs[name] if taken.calls == calls] for name in (candidate.name, fastest.name)
    )
    reason = clocks.late_work(
        [taken.first for taken in ours], [taken.first for taken in theirs], seconds
    ) or clocks.unfinished_work(
        [(taken.first, taken.again) for taken in ours], seconds, [(taken.first, taken.again) for taken in theirs]
    )
    return None if reason is None else Finding(Word.OFFENCE, reason)
