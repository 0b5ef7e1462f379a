"""How often the judge is wrong about time: a program against itself, and against itself with three per cent more to do.

    python benchmarks/judge_noise.py --target cpu
    python benchmarks/judge_noise.py --target nvidia --repetitions 50 --slowed 100

The reference is a chain of elementary operations: a hundred on a CPU; on a GPU 33, each long enough that the device,
not the host, sets the pace. The first candidate is the same chain: a promotion that calls it faster is a false win. The
second does three per cent more operations and returns the same: its speed-up should be below 1. Each repetition is a
promotion in a fresh process against eager, on one workload, without the runs in which accesses to memory are watched:
they come before the times. Printed are the false wins, how often the slow-down was seen with the right sign, how often
the whole interval lay below 1, and the spread of both ratios; after every ten as it stands, so that ``--minutes`` or an
interruption loses nothing. ``--in-flight`` puts several to the judge at once, as a
search does: each is timed alone, and workers start and compare meanwhile.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from kernelevolve.candidates import Candidate
from kernelevolve.judge.local import LocalJudge
from kernelevolve.judge.settings import JudgeSettings
from kernelevolve.judge.verdict import Effort, Speedup, Verdict
from kernelevolve.problems import Problem
from kernelevolve.targets import resolve

_TOGETHER = 10
CANDIDATE = """import torch
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


@dataclass(frozen=True)
class Chain:
    """Cosines of cosines of a matrix."""

    steps: int
    more: int
    """What the slower program does beyond them."""
    shape: tuple[int, int]

    def problem(self) -> Problem:
        """The chain as a reference with one workload."""
        return Problem(
            name="chain",
            source=f"""
import torch
from torch import nn

from kernelevolve import Workload


class Model(nn.Module):
    def forward(self, x):
        for _ in range({self.steps}):
            x = torch.cos(x)
        return x


def get_inputs():
    return [torch.randn{self.shape}]


def get_workloads():
    return [Workload(name="as-written")]
""",
        )

    def candidate(self, more: int) -> Candidate:
        """The reference with some operations more."""
        return Candidate(source=CANDIDATE.format(steps=self.steps, more=more), language="pytorch")


CHAINS = {"cpu": Chain(100, 3, (64, 256)), "cuda": Chain(33, 1, (2048, 2048))}
"""By type of device."""


def speedup_of(verdict: Verdict) -> Speedup:
    """Against eager by the main clock."""
    if not verdict.correct:
        raise SystemExit(f"the chain is {verdict.kind}: {verdict.reason}")
    return verdict.speedups["eager"]


def describe(ratios: list[float]) -> str:
    """Median and range."""
    return f"median {statistics.median(ratios):.4f}, from {min(ratios):.4f} to {max(ratios):.4f}"


def report(same: list[Verdict], worse: list[Verdict], chain: Chain) -> bool:
    """Print what was found so far; True if it is within the aims."""
    false_wins, equal = sum(verdict.wins for verdict in same), [speedup_of(v).value for v in same]
    print(f"equal programs: {false_wins} false wins in {len(same)}; ratio {describe(equal)}", flush=True)
    slower = [speedup_of(v) for v in worse]
    seen, certain = sum(s.value < 1 for s in slower), sum(s.high < 1 for s in slower)
    if slower:
        print(
            f"{100 * chain.more / chain.steps:.0f} % slower: right sign in {seen} of {len(worse)}, "
            f"whole interval below 1 in {certain}; ratio {describe([s.value for s in slower])}",
            flush=True,
        )
    return false_wins <= len(same) / 50 and seen >= 0.95 * len(worse)


def main() -> int:
    """Promote, count, print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--target", default="cpu")
    parser.add_argument("--repetitions", type=int, default=50, help="promotions of the reference against itself")
    parser.add_argument("--slowed", type=int, default=100, help="promotions of the slower program")
    parser.add_argument("--in-flight", type=int, default=1, help="promotions at once")
    parser.add_argument("--minutes", type=float, default=120, help="no further ten are begun after so many")
    options = parser.parse_args()
    target = resolve(options.target)
    chain = CHAINS[target.device_type]
    settings = JudgeSettings(baselines=("eager",), memory_check_seconds=0)
    # In turn, so that a run that is cut short has some of both.
    wanted = ((options.repetitions, 0), (options.slowed, chain.more))
    order = sorted((i / n, more) for n, more in wanted for i in range(n))
    taken: dict[int, list[Verdict]] = {0: [], chain.more: []}
    deadline = time.monotonic() + 60 * options.minutes
    within = False
    with tempfile.TemporaryDirectory() as place:
        judge = LocalJudge(chain.problem(), target, workspace=Path(place), settings=settings)
        try:
            with ThreadPoolExecutor(options.in_flight) as pool:
                for first in range(0, len(order), _TOGETHER):
                    extra = [more for _, more in order[first : first + _TOGETHER]]
                    verdicts = pool.map(lambda more: judge.evaluate(chain.candidate(more), Effort.PROMOTION), extra)
                    for more, verdict in zip(extra, verdicts, strict=True):
                        taken[more].append(verdict)
                    if taken[0]:
                        within = report(taken[0], taken[chain.more], chain)
                    if time.monotonic() > deadline:
                        break
        finally:
            judge.close()
    judged = taken[0] or taken[chain.more]
    seconds, clock = statistics.median(v.seconds for v in judged if v.seconds is not None), speedup_of(judged[0]).clock
    print(f"device: {target.device_name()}; a call takes {seconds * 1e6:.0f} µs by {clock} time")
    return 0 if within else 1


if __name__ == "__main__":
    sys.exit(main())
