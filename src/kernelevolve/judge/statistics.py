"""Statistics of paired timings: a speed-up with its interval, and the noise floor of an A/A comparison.

The unit is the block, in which every program was called side by side. Samples inside a block share the machine's mood
and are not independent, so a block counts once, by its median.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from statistics import NormalDist

import numpy as np
from numpy.typing import NDArray

from kernelevolve.judge.verdict import Clock, Samples, Speedup

TWIN_SUFFIX = " again"
"""Ends the name of a second process that runs a baseline, timed beside the first to find the noise floor."""


def speedup(baseline: Samples, candidate: Samples, *, confidence: float = 0.95) -> Speedup:
    """Baseline time over candidate time on one workload.

    Block i of one was taken beside block i of the other, so that drift of the machine cancels in their ratio. The
    estimate is the median over blocks of the log ratio of block medians: up to half of the blocks may be disturbed
    before it leaves the range of the quiet ones. The interval resamples blocks and is the *expanded* percentile
    interval (Hesterberg, The American Statistician 69(4), 2015, section 5.2): the plain percentile interval of n blocks
    is too narrow by sqrt((n - 1) / n) and ignores Student's t. The bootstrap distribution of a median is known in
    closed form, so nothing is drawn, and who has the samples gets the same interval to the last digit.

    Raises ValueError if the two were not taken in the same blocks, in fewer than two or in more than 1000.
    """
    logs = _block_log_ratios(baseline, candidate)
    n = len(logs)
    if not 2 <= n <= 1000:
        raise ValueError(f"an interval needs two to a thousand blocks, not {n}")
    low, high = _interval_of_median(logs, _expanded_tail(n, confidence))
    return Speedup(
        baseline=baseline.program, clock=baseline.clock, value=math.exp(float(np.median(logs))), confidence=confidence,
        low=math.exp(low), high=math.exp(high),
    )  # fmt: skip


def combine(parts: Sequence[Speedup]) -> Speedup:
    """One speed-up over several workloads, of one baseline by one clock: the geometric mean.

    The workloads were timed in sessions of their own, so their errors are independent and the half-widths of the log
    intervals add in quadrature, each side for itself (the method of variance estimates recovery: Zou and Donner,
    Statistics in Medicine 27, 2008). Raises ValueError if there are no parts, or they are not of one kind.
    """
    if len({(p.baseline, p.clock, p.confidence) for p in parts}) != 1:
        raise ValueError("only speed-ups over one baseline, by one clock and with one confidence can be combined")
    n, first = len(parts), parts[0]
    center = sum(math.log(p.value) for p in parts) / n
    below = math.hypot(*(math.log(p.value / p.low) for p in parts)) / n
    above = math.hypot(*(math.log(p.high / p.value) for p in parts)) / n
    return Speedup(
        baseline=first.baseline, clock=first.clock, value=math.exp(center), confidence=first.confidence,
        low=math.exp(center - below), high=math.exp(center + above),
    )  # fmt: skip


def noise_floor(first: Samples, second: Samples) -> float:
    """How far apart two processes that run the same program seem to be: |ratio - 1|, dimensionless.

    What is left in the median over paired blocks is systematic (placement in memory, another core, alignment), and no
    interval over blocks shows it. Raises ValueError if the two were not taken in the same blocks.
    """
    return math.expm1(abs(float(np.median(_block_log_ratios(first, second)))))


def noise_floors(samples: Sequence[Samples]) -> dict[Clock, float]:
    """The noise floor by clock, over all workloads together; empty if no program was run twice.

    Claims are geometric means over workloads. What shifts each workload by a share of its own shifts that mean by the
    geometric mean of the shares at most.
    """
    found: dict[Clock, list[float]] = {}
    for first, twin in _twins(samples):
        found.setdefault(first.clock, []).append(math.log1p(noise_floor(first, twin)))
    return {clock: math.expm1(sum(logs) / len(logs)) for clock, logs in found.items()}


@dataclass(frozen=True, slots=True)
class Apart:
    """How far apart two processes of one program seem to be, |ratio - 1|, with its interval; dimensionless."""

    value: float
    low: float
    high: float


def furthest_apart(samples: Sequence[Samples]) -> dict[Clock, Apart]:
    """By clock, the workload on which a program and its twin differ most; empty if no program was run twice.

    The largest of all workloads and not their mean: what is held against it may have been timed on any of them, and a
    short timing has too few blocks to tell a large difference from an unlucky one. Raises ValueError as ``speedup``.
    """
    found: dict[Clock, Apart] = {}
    for first, twin in _twins(samples):
        ratio = speedup(first, twin)
        value, *ends = (abs(math.log(r)) for r in (ratio.value, ratio.low, ratio.high))
        low = 0.0 if ratio.low <= 1 <= ratio.high else min(ends)
        apart = Apart(*(math.expm1(log) for log in (value, low, max(ends))))
        if first.clock not in found or apart.value > found[first.clock].value:
            found[first.clock] = apart
    return found


def _twins(samples: Sequence[Samples]) -> Iterator[tuple[Samples, Samples]]:
    """A program and its second run, for every workload and clock by which both were timed."""
    by_key = {(s.program, s.workload, s.clock): s for s in samples}
    for (program, workload, clock), twin in by_key.items():
        first = by_key.get((program.removesuffix(TWIN_SUFFIX), workload, clock))
        if program.endswith(TWIN_SUFFIX) and first is not None:
            yield first, twin


def _block_log_ratios(baseline: Samples, candidate: Samples) -> NDArray[np.float64]:
    """log(baseline / candidate) of block medians, one number a block."""
    if len(baseline.blocks) != len(candidate.blocks) or not baseline.blocks:
        raise ValueError(
            f"{len(baseline.blocks)} blocks of {baseline.program} were taken beside {len(candidate.blocks)} of "
            f"{candidate.program}"
        )
    ratios: NDArray[np.float64] = _block_medians(baseline) / _block_medians(candidate)
    return np.log(ratios)


def _block_medians(samples: Samples) -> NDArray[np.float64]:
    return np.array([np.median(block) for block in samples.blocks], dtype=np.float64)


def _interval_of_median(values: NDArray[np.float64], tail: float) -> tuple[float, float]:
    """What the median of a resample of the values falls below, and above, with a probability of at least ``tail``."""
    ordered = np.sort(values)
    probability = _chances_of_middle(len(values))
    first, second = np.nonzero(probability)
    medians = (ordered[first] + ordered[second]) / 2
    order = np.argsort(medians)
    weights = probability[first, second][order]
    below, above = np.cumsum(weights), np.cumsum(weights[::-1])
    low, high = medians[order][np.searchsorted(below, tail)], medians[order][::-1][np.searchsorted(above, tail)]
    return float(low), float(high)


def _chances_of_middle(n: int) -> NDArray[np.float64]:
    """Entry (i, j): probability that the two middle values of n draws from n ordered ones are the i-th and the j-th.

    Efron, The Annals of Statistics 7(1), 1979, section 3, gives the case of an odd n, where the two are one and only
    the diagonal is filled.
    """
    middle = (n + 1) // 2
    rank = np.arange(n + 1) / n
    counts = np.arange(middle, n + 1)
    ways = np.array([math.comb(n, int(k)) for k in counts], dtype=np.float64)
    # The middle-th smallest draw is at most the i-th value if at least that many draws are.
    at_most = (ways * rank[:, None] ** counts * (1 - rank[:, None]) ** (n - counts)).sum(axis=1)
    lower = np.diff(at_most)
    if n % 2:
        return np.diag(lower)
    # Half of the draws end at i and the other half begin at j > i.
    ends = np.diff(rank**middle)
    apart = np.triu(math.comb(n, middle) * np.outer(ends, ends[::-1]), k=1)
    return apart + np.diag(np.maximum(lower - apart.sum(axis=1), 0.0))


def _expanded_tail(n: int, confidence: float) -> float:
    """Probability to cut at either end of the bootstrap distribution: Phi(-sqrt(n / (n - 1)) * t)."""
    t = _student_quantile((1 + confidence) / 2, n - 1)
    return NormalDist().cdf(-math.sqrt(n / (n - 1)) * t)


def _student_quantile(p: float, degrees: int) -> float:
    """Quantile of Student's t by its expansion about the normal one (Abramowitz and Stegun 26.7.5)."""
    z = NormalDist().inv_cdf(p)
    terms = (
        (z**3 + z) / 4,
        (5 * z**5 + 16 * z**3 + 3 * z) / 96,
        (3 * z**7 + 19 * z**5 + 17 * z**3 - 15 * z) / 384,
        (79 * z**9 + 776 * z**7 + 1482 * z**5 - 1920 * z**3 - 945 * z) / 92160,
    )
    return z + sum(term / float(degrees) ** (i + 1) for i, term in enumerate(terms))
