"""Clocks: what the judge's own clock says against the times that a worker reads, and physics against both.

Every rule compares a program with the baselines, which answer the same requests on the same machine at the same time,
and is the more lenient the more the machine disturbs them: a busy machine accuses nobody.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from statistics import median

CLOCK_SHARE = 0.1
"""Share of a single call by which the judge's clock may exceed the worker's."""
SERIES_SHARE = 0.08
"""Share of a series by which it may."""
SLACK_SECONDS = 5e-4
"""By how much the usual hand-shakes of two programs in single calls may differ."""
SERIES_SLACK_SECONDS = 3e-4
"""The same for the least of several hand-shakes, as after a series."""
ALONE_SLACK_SECONDS = 1e-3
"""What a hand-shake may cost if no baseline shows what it costs here."""
COLD_WARM_RATIO = 0.7
"""A call with cold caches takes at least this part of one in a series, whatever is measured."""
LATE_SLACK_SECONDS = 1e-3
UNFINISHED_SLACK_SECONDS = 3e-4
"""By how much two exchanges over the same bytes may differ."""
UNFINISHED_SHARE = 0.1
"""Part of the time of a series that two exchanges over its outputs may differ by."""
BASELINE_SHARE = 0.8
"""Part of the fastest baseline's time from which on a program is not suspected of being faster than physics."""
TOO_BUSY = "other work keeps the machine too busy"
"""Begins the reason of whatever is disturbed."""
_FEW = 5
_LEAST_WITNESSES = 2
FLOOR_SHARE = 0.95
"""Part of the roofline floor below which no honest program runs; the rest is the error of the ceilings."""


class Word(StrEnum):
    """What a measurement says."""

    FINE = "fine"
    OFFENCE = "offence"
    DISTURBED = "disturbed"
    """The machine was too busy for it to say either."""


@dataclass(frozen=True, slots=True)
class Bounds:
    """Seconds between which the truth lies.

    How long the machine kept a program waiting is known, but not what would have been without: a wait may fall into a
    pause that costs nothing, into what the worker's clock has seen too, or be made by threads of the program itself.
    So all of it is taken off for ``low``, which accuses, and none of it for ``high``, which acquits.
    """

    low: float
    high: float

    def __add__(self, other: Bounds) -> Bounds:
        """Of both together."""
        return Bounds(self.low + other.low, self.high + other.high)


@dataclass(frozen=True, slots=True)
class Finding:
    """A word that is not ``FINE``, and the sentence that explains it."""

    word: Word
    reason: str


def beyond(values: Sequence[Bounds], limits: Sequence[float]) -> Word:
    """Whether a program's true seconds exceed a limit, by several measurements with a limit each.

    One that is within its limit, delays and all, acquits: no machine makes a program faster than it is. Otherwise those
    count that the machine disturbed least, half of them and two at least: if all are above their limits even without
    any delay, that accuses. All that is left says nothing, and more has to be measured.
    """
    pairs = list(zip(values, limits, strict=True))
    if any(value.high <= limit for value, limit in pairs):
        return Word.FINE
    calmest = sorted(pairs, key=lambda pair: pair[0].high - pair[0].low)[: max(_LEAST_WITNESSES, (len(pairs) + 1) // 2)]
    return Word.OFFENCE if all(value.low > limit for value, limit in calmest) else Word.DISTURBED


def series_disagreement(gaps: Sequence[Bounds], usual: Sequence[float], outer: Sequence[float]) -> Finding | None:
    """What is wrong with a worker's clock by its series, or None.

    ``gaps`` are what it leaves unexplained of the judge's time for each, ``usual`` what the workers of baselines leave
    unexplained of theirs, and ``outer`` are the times of the series, all in seconds.
    """
    slack = SERIES_SLACK_SECONDS + half_spread(usual) if usual else ALONE_SLACK_SECONDS
    shake = max(0.0, median(usual) if usual else 0.0)
    word = beyond(gaps, [shake + slack + SERIES_SHARE * seconds for seconds in outer])
    excess, usually = median(gap.low for gap in gaps) - shake, median(outer)
    reason = f"the worker's clock leaves {excess * 1e3:.3f} ms unexplained of a series that took {usually * 1e3:.3f} ms"
    return _finding(word, reason)


def _finding(word: Word, reason: str) -> Finding | None:
    if word is Word.DISTURBED:
        reason = f"{TOO_BUSY} for the judge's clock to confirm its times"
    return None if word is Word.FINE else Finding(word, reason)


def long_handshakes(handshakes: Sequence[float], baselines: Sequence[Sequence[float]], seconds: float) -> str | None:
    """Whether single calls take so much longer by the judge's clock than the worker says that it must be false.

    ``handshakes`` are the differences between the two clocks, for the candidate and for each baseline, and ``seconds``
    is the candidate's time. What the machine adds falls on all of them alike, but not evenly: on a busy machine the
    hand-shakes of one program differ among themselves, and two programs may differ by as much. No true hand-shake takes
    less than nothing; a negative one was credited with a delay that fell outside it.
    """
    others = [values for values in baselines if values]
    if not handshakes or not others:
        return None
    mine, usual = median(handshakes), max(0.0, *map(median, others))
    slack = SLACK_SECONDS + CLOCK_SHARE * (seconds + mine) + max(map(half_spread, others))
    if mine - usual > slack:
        return f"the clocks differ by {mine * 1e3:.3f} ms for the candidate and by {usual * 1e3:.3f} ms for a baseline"
    return None


def unconfirmed_handshakes(
    gaps: Sequence[float], baselines: Sequence[Sequence[float]], seconds: float
) -> Finding | None:
    """Whether so much was waited for processors in single calls that the judge's clock does not confirm the worker's.

    ``gaps`` are the differences between the two clocks with all delays in them, for the candidate and each baseline. A
    true clock sees the delays within a call, so what is left between the two is short on a busy machine as well.
    ``long_handshakes`` takes delays off, and looks at calm calls only: it accuses, and this does not.
    """
    others = [values for values in baselines if values]
    if not gaps or not others:
        return None
    mine, usual = median(gaps), max(map(median, others))
    slack = SLACK_SECONDS + CLOCK_SHARE * (seconds + mine) + max(map(half_spread, others))
    return _finding(Word.DISTURBED, "") if mine - usual > slack else None


def cold_below_series(cold: float, series: Sequence[Bounds], calls: Sequence[int]) -> Finding | None:
    """Whether single calls are faster than the judge's own clock allows by series of them, or None.

    ``cold`` is the usual time of a single call as the worker reads it, ``series`` the seconds per call in each series
    by the judge's clock, and ``calls`` how many calls each has.
    """
    word = beyond(series, [cold / COLD_WARM_RATIO + SERIES_SLACK_SECONDS / count for count in calls])
    in_a_row = median(one.low for one in series)
    reason = (
        f"a single call is said to take {cold * 1e6:.1f} us, one of {max(calls)} in a row takes {in_a_row * 1e6:.1f} us"
    )
    return _finding(word, reason)


def late_work(pulls: Sequence[Bounds], baseline_pulls: Sequence[Bounds], baseline_seconds: float) -> str | None:
    """Whether handing over outputs takes so long that work must have been left for it, or None.

    ``baseline_seconds`` is what a baseline takes to make as many outputs.
    """
    if not pulls or not baseline_pulls:
        return None
    least, usual = min(pull.low for pull in pulls), max(pull.high for pull in baseline_pulls)
    if least - usual > max(LATE_SLACK_SECONDS, baseline_seconds / 2):
        return f"handing over the output took {least * 1e3:.2f} ms, a baseline's takes {usual * 1e3:.2f} ms"
    return None


def unfinished_work(
    hand_overs: Sequence[tuple[Bounds, Bounds]], seconds: float, usual: Sequence[tuple[Bounds, Bounds]] = ()
) -> str | None:
    """Whether outputs take longer to be handed over for the first time than for the second, or None.

    Both times the same bytes are copied with cold caches, so whatever the first takes longer is work that the calls
    left for later. This needs no comparison with another program, whose outputs may have other strides, and sees less
    than ``late_work``. ``hand_overs`` are first and second times, ``seconds`` is the time of the series that made them,
    ``usual`` first and second times of a baseline. The least of the first times counts: a busy machine makes some of
    them longer, work that was left makes all longer.
    """
    if not hand_overs:
        return None
    again = [second.high for _, second in hand_overs]
    longer = max([0.0, *(first.high - second.low for first, second in usual)])
    excess = min(first.low for first, _ in hand_overs) - median(again) - longer
    if excess > max(UNFINISHED_SLACK_SECONDS + half_spread(again), UNFINISHED_SHARE * seconds):
        return f"outputs take {excess * 1e3:.3f} ms longer to be handed over for the first time than for the second"
    return None


def below_floor(seconds: float, baselines: Sequence[float], floor: float) -> str | None:
    """Whether a time is faster than the physics of the device allow, or None.

    A floor that a baseline passes too is a wrong floor (the ceilings were measured on a busy machine, say), and where a
    baseline nearly reaches it, what differs from that by no more than noise is no offence.
    """
    fastest = min(baselines, default=math.inf)
    if seconds >= FLOOR_SHARE * floor or fastest < FLOOR_SHARE * floor or seconds >= BASELINE_SHARE * fastest:
        return None
    return (
        f"{seconds * 1e6:.2f} us is less than this device needs to move the data or do the sums, {floor * 1e6:.2f} us"
    )


def half_spread(values: Sequence[float]) -> float:
    """Half the range of the middle half, or of all if they are few: what noise does to most of the values."""
    if not values:
        return 0.0
    ordered = sorted(values)
    if len(ordered) < _FEW:
        return (ordered[-1] - ordered[0]) / 2
    return (ordered[3 * (len(ordered) - 1) // 4] - ordered[(len(ordered) - 1) // 4]) / 2
