"""Statistics of paired timings: a speed-up with its interval, and the noise floor of an A/A comparison."""

from __future__ import annotations

import math
import random
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from kernelevolve.judge.verdict import Samples, Speedup

_DRAWS = 4000


def _block_log_ratios(baseline: Samples, candidate: Samples) -> NDArray[np.float64]:
    if len(baseline.blocks) != len(candidate.blocks):
        raise ValueError(f"{len(baseline.blocks)} blocks of {baseline.program} beside {len(candidate.blocks)}")
    return np.log([np.median(b) / np.median(c) for b, c in zip(baseline.blocks, candidate.blocks, strict=True)])


def speedup(baseline: Samples, candidate: Samples, *, confidence: float = 0.95, rng: random.Random) -> Speedup:
    """Baseline time over candidate time.

    Block i of one was taken beside block i of the other, so drift of the machine cancels in their ratio. The estimate
    is the median over blocks of the log ratio of block medians, which one disturbed block cannot move far. The
    interval resamples blocks (percentile bootstrap; Efron and Tibshirani 1993, chapter 13), widened by
    sqrt(n / (n - 1)) because the bootstrap variance of few blocks is too small by that factor. Raises ValueError if
    the two were not taken in the same blocks.
    """
    logs = _block_log_ratios(baseline, candidate)
    n = len(logs)
    center = float(np.median(logs))
    generator = np.random.default_rng(rng.getrandbits(64))
    draws = np.median(logs[generator.integers(0, n, size=(_DRAWS, n))], axis=1)
    tail = (1 - confidence) / 2
    low, high = (float(q) for q in np.quantile(draws, [tail, 1 - tail]))
    widen = math.sqrt(n / (n - 1)) if n > 1 else 1.0
    return Speedup(
        baseline=baseline.program, clock=baseline.clock, value=math.exp(center), confidence=confidence,
        low=math.exp(center - (center - low) * widen), high=math.exp(center + (high - center) * widen),
    )  # fmt: skip


def combine(parts: Sequence[Speedup]) -> Speedup:
    """One speed-up over several workloads: the geometric mean. The sessions are independent, so the half-widths of the
    log intervals add in quadrature."""
    n = len(parts)
    logs = [math.log(p.value) for p in parts]
    below = math.sqrt(sum((math.log(p.value) - math.log(p.low)) ** 2 for p in parts)) / n
    above = math.sqrt(sum((math.log(p.high) - math.log(p.value)) ** 2 for p in parts)) / n
    center = sum(logs) / n
    return Speedup(
        baseline=parts[0].baseline, clock=parts[0].clock, value=math.exp(center), low=math.exp(center - below),
        high=math.exp(center + above), confidence=parts[0].confidence,
    )  # fmt: skip


def noise_floor(first: Samples, second: Samples) -> float:
    """How far apart two processes that run the same program seem to be: |ratio - 1|.

    What is left in the median of paired blocks is systematic (placement of memory, order, another core), which no
    interval over blocks shows.
    """
    return math.expm1(abs(float(np.median(_block_log_ratios(first, second)))))
