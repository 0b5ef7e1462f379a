"""Compare tuners on recorded spaces: how near to the optimum they come after a number of timings.

    python benchmarks/tuner_replay.py [SPACE.json ...] [--runs 24] [--tuners hybrid,lfbo,...]

Printed is the mean of optimum time over best time found, in per cent, over runs with different seeds of the generator:
once from no start at all, once from the default of the space, and once from starts drawn from the best fifth of the
space, which stand for what somebody who knows the kernel would try. The times are recorded ones (measured once), so
that a comparison has no noise but that of the tuners.
"""

from __future__ import annotations

import argparse
import random
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from statistics import fmean

from kernelevolve.candidates import Config
from kernelevolve.tuning.replay import RecordedSpace, replay

DATA = Path(__file__).parent.parent / "tests" / "data"
MARKS = (10, 20, 30, 50, 100)
TUNERS = "hybrid,lfbo,coordinate,random-search"


def informed(count: int) -> Callable[[RecordedSpace, random.Random], list[Config]]:
    """Starts drawn from the best fifth."""
    return lambda recorded, rng: rng.sample(recorded.best_share(0.2), count)


STARTS: dict[str, Callable[[RecordedSpace, random.Random], list[Config]]] = {
    "none": lambda recorded, rng: [],
    "default": lambda recorded, rng: recorded.space.starts(),
    "1 of best fifth": informed(1),
    "4 of best fifth": informed(4),
}


def curves(recorded: RecordedSpace, tuner: str, start: str, runs: int) -> list[list[float]]:
    """One curve a run; the same run number has the same starts for every tuner."""
    found = []
    for run in range(runs):
        starts = STARTS[start](recorded, random.Random(run))
        found.append(replay(recorded, tuner, max(MARKS), random.Random(1000 + run), starts))
    return found


def report(recorded: Sequence[RecordedSpace], tuners: Sequence[str], runs: int) -> None:
    """Print one table."""
    for space in recorded:
        print(f"{space.name}: {len(space.seconds)} configurations, {space.origin}")
    print(f"\nmean per cent of the optimum after n timings, {runs} runs a space\n")
    print("| starts | tuner |" + "".join(f" {mark} |" for mark in MARKS) + " tuner's own s per run |")
    print("|---|---|" + "---|" * (len(MARKS) + 1))
    for start in STARTS:
        for tuner in tuners:
            begun = time.process_time()
            found = [curve for space in recorded for curve in curves(space, tuner, start, runs)]
            seconds = (time.process_time() - begun) / len(found)
            means = [100 * fmean(curve[mark - 1] for curve in found) for mark in MARKS]
            row = "".join(f" {mean:.1f} |" for mean in means)
            print(f"| {start} | {tuner} |{row} {seconds:.2f} |", flush=True)


def main() -> None:
    """Read the spaces and print the table."""
    parser = argparse.ArgumentParser(description="replay tuners on recorded numeric spaces")
    parser.add_argument("spaces", nargs="*", type=Path, default=sorted(DATA.glob("space_*.json")))
    parser.add_argument("--runs", type=int, default=24)
    parser.add_argument("--tuners", default=TUNERS)
    arguments = parser.parse_args()
    report([RecordedSpace.load(path) for path in arguments.spaces], arguments.tuners.split(","), arguments.runs)


if __name__ == "__main__":
    main()
