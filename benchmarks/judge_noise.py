"""How often the judge is wrong about time: a program against itself, and against itself with three per cent more to do.

    python benchmarks/judge_noise.py --target cpu
    python benchmarks/judge_noise.py --target nvidia --repetitions 50 --slowed 100

The reference is a chain of a hundred elementary operations. The first candidate is the same chain: a promotion that
calls it faster is a false win. The second does three operations more and returns the same: its speed-up should be
below 1. Each repetition is a promotion in a fresh process against eager, on one workload. Printed are the false wins,
how often the slow-down was seen with the right sign, how often the whole interval lay below 1, and the spread of both
ratios.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import tempfile
from pathlib import Path

from kernelevolve.candidates import Candidate
from kernelevolve.judge.local import LocalJudge
from kernelevolve.judge.settings import JudgeSettings
from kernelevolve.judge.verdict import Effort, Speedup, Verdict
from kernelevolve.problems import Problem
from kernelevolve.targets import resolve

STEPS, MORE = 100, 3
PROBLEM = Problem(
    name="chain",
    source=f"""
import torch
from torch import nn

from kernelevolve import Workload


class Model(nn.Module):
    def forward(self, x):
        for _ in range({STEPS}):
            x = torch.cos(x)
        return x


def get_inputs():
    return [torch.randn(64, 256)]


def get_workloads():
    return [Workload(name="as-written")]
""",
)
CHAIN = """import torch
from torch import nn


class ModelNew(nn.Module):
    def forward(self, x):
        for _ in range({steps}):
            x = torch.cos(x)
        spare = x
        for _ in range({more}):
            spare = torch.cos(spare)
        return x
"""


def chain(more: int) -> Candidate:
    """The reference with some operations more."""
    return Candidate(source=CHAIN.format(steps=STEPS, more=more), language="pytorch")


def speedup_of(verdict: Verdict) -> Speedup:
    """Against eager by the main clock."""
    if not verdict.correct:
        raise SystemExit(f"the chain is {verdict.kind}: {verdict.reason}")
    return verdict.speedups["eager"]


def describe(ratios: list[float]) -> str:
    """Median and range."""
    return f"median {statistics.median(ratios):.4f}, from {min(ratios):.4f} to {max(ratios):.4f}"


def main() -> int:
    """Promote, count, print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--target", default="cpu")
    parser.add_argument("--repetitions", type=int, default=50, help="promotions of the reference against itself")
    parser.add_argument("--slowed", type=int, default=100, help="promotions of the slower program")
    options = parser.parse_args()
    settings = JudgeSettings(baselines=("eager",))
    with tempfile.TemporaryDirectory() as place:
        judge = LocalJudge(PROBLEM, resolve(options.target), workspace=Path(place), settings=settings)
        try:
            equal = [judge.evaluate(chain(0), Effort.PROMOTION) for _ in range(options.repetitions)]
            slower = [judge.evaluate(chain(MORE), Effort.PROMOTION) for _ in range(options.slowed)]
        finally:
            judge.close()
    false_wins = sum(verdict.wins for verdict in equal)
    same, worse = [speedup_of(v) for v in equal], [speedup_of(v) for v in slower]
    seconds = statistics.median(v.seconds for v in equal if v.seconds is not None)
    print(
        f"device: {resolve(options.target).device_name()}; a call takes {seconds * 1e6:.0f} µs by {same[0].clock} time"
    )
    print(f"equal programs: {false_wins} false wins in {len(same)}; ratio {describe([s.value for s in same])}")
    seen = sum(s.value < 1 for s in worse)
    certain = sum(s.high < 1 for s in worse)
    print(
        f"{MORE} % slower: right sign in {seen} of {len(worse)}, whole interval below 1 in {certain}; "
        f"ratio {describe([s.value for s in worse])}"
    )
    return 0 if false_wins <= len(same) / 50 and seen >= 0.95 * len(worse) else 1


if __name__ == "__main__":
    sys.exit(main())
