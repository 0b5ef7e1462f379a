"""Record the numeric spaces that tuners are compared on: every configuration of two C++ kernels, built and timed here.

    python benchmarks/record_spaces.py tests/data [--rounds 60]

Each configuration is compiled, checked and timed alone: the least processor time of one thread over some rounds, so
that other work on the machine disturbs little. About five minutes on one core.
"""

from __future__ import annotations

import argparse
import math
import os
import platform
import sys
import tempfile
from pathlib import Path

from kernelevolve.candidates import Bool, Choice, Config, PowerOfTwo, TunableSpace
from kernelevolve.languages.cpp import build
from kernelevolve.tuning.replay import RecordedSpace

KERNELS = Path(__file__).parent / "kernels"
SPACES = {
    "matmul": TunableSpace(
        {
            "MR": Choice(1, 2, 4, 6, 8, default=1),
            "NR": PowerOfTwo(8, 64, 16),
            "BM": Choice(24, 48, 96, 192, default=48),
            "BK": Choice(32, 64, 192, default=64),
            "PACK": Bool(),
        },
        constraints=("MR * NR <= 384",),
    ),
    "transpose": TunableSpace(
        {
            "TI": PowerOfTwo(4, 64, 32),
            "TJ": PowerOfTwo(4, 64, 32),
            "UNROLL": Choice(1, 2, 4, 8, default=1),
            "READ_ROWS": Bool(True),
            "ROWS_FIRST": Bool(True),
        },
        constraints=("TI % UNROLL == 0",),
    ),
}


def least_seconds(source: str, config: Config, rounds: int) -> float:
    """Build one configuration and time it. Raises RuntimeError if it computes something else."""
    module = build(source, flags=[f"-D{name}={int(value)}" for name, value in config.items()])
    seconds = float(module.least_seconds(rounds))
    if seconds < 0:
        raise RuntimeError(f"{config} gives a wrong result")
    return seconds


def record(name: str, rounds: int) -> RecordedSpace:
    """Every configuration of one kernel."""
    space, source = SPACES[name], (KERNELS / f"{name}.cpp").read_text()
    points = list(space.points())
    seconds = []
    for number, config in enumerate(points, start=1):
        seconds.append(least_seconds(source, config, rounds))
        if number % 50 == 0 or number == len(points):
            print(f"{name}: {number} of {len(points)}, best {1e6 * min(seconds):.1f} us", file=sys.stderr, flush=True)
    origin = (
        f"{name}.cpp, one thread of {cpu_model()}, least processor time of {rounds} rounds, all configurations built "
        "and checked"
    )
    return RecordedSpace(name, origin, space, tuple(seconds))


def cpu_model() -> str:
    """The processor's name as the kernel gives it."""
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return line.split(":", 1)[1].strip()
    return platform.machine()


def main() -> None:
    """Record every space into a folder."""
    parser = argparse.ArgumentParser(description="build and time every configuration of the recorded kernels")
    parser.add_argument("folder", type=Path)
    parser.add_argument("--rounds", type=int, default=60)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as builds:
        os.environ["KERNELEVOLVE_BUILD_DIR"] = builds
        for name in SPACES:
            recorded = record(name, arguments.rounds)
            working = [s for s in recorded.seconds if math.isfinite(s)]
            recorded.save(arguments.folder / f"space_{name}.json")
            print(f"{name}: {len(working)} configurations, {1e6 * min(working):.1f} to {1e6 * max(working):.1f} us")


if __name__ == "__main__":
    main()
