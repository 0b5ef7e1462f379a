"""What told candidates gained over the built-in operators' best, from recordings of told searches, as Markdown.

    python benchmarks/told_results.py tests/recordings/*-h200.tar.xz > docs/results/written-nvidia-h200.md

In each recording (``benchmarks/pack_recording.py``) a program that begins with ``# Built-in:`` was found by
``kernelevolve optimize`` and told like the others. The gain is the ratio of two device times over the search workloads,
that of the built-in program to that of the best other one, each by its latest screen, beside baselines and not beside
the other; its interval is a 95 % bootstrap over the blocks of both. Strict tests have a table of their own, in which
every workload has a row: held-out sizes are others than a program was made for.
"""

from __future__ import annotations

import argparse
import math
import re
import tarfile
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from kernelevolve.judge.diagnosis import diagnose
from kernelevolve.judge.measurement import CANDIDATE
from kernelevolve.judge.verdict import Clock, Effort, Speedup, Verdict
from kernelevolve.run import Run
from kernelevolve.search.node import Node
from kernelevolve.search.turns import AGENT
from kernelevolve.workspace import open_run

_DRAWS = 4000
_BUILT_IN = re.compile(r"# Built-in:")
_PARENT = "# parent:"


@dataclass(frozen=True)
class Best:
    """The best kernel of a run by one effort of the judge."""

    node: Node
    verdict: Verdict

    @property
    def microseconds(self) -> str:
        """Geometric mean over the timed workloads."""
        return f"{(self.verdict.seconds or 0) * 1e6:.1f} µs"

    @property
    def roofline(self) -> str:
        """Fraction of the floor, where there is one."""
        fraction = self.verdict.roofline_fraction
        return "–" if fraction is None else f"{100 * fraction:.0f} %"


@dataclass(frozen=True)
class Gain:
    """Told over built-in."""

    value: float
    low: float
    high: float


def best_of(run: Run, effort: Effort, among: Callable[[Node], bool]) -> Best | None:
    """The fastest correct of some nodes by this effort's latest verdict."""
    found = []
    for node in filter(among, run.nodes()):
        verdict = _latest(run, node, effort)
        if verdict is not None and verdict.correct and verdict.seconds:
            found.append(Best(node, verdict))
    return min(found, key=lambda best: best.verdict.seconds or math.inf, default=None)


def _latest(run: Run, node: Node, effort: Effort) -> Verdict | None:
    return next((verdict for verdict in reversed(run.verdicts(node.id)) if verdict.effort is effort), None)


def gain_of(run: Run) -> tuple[Gain, Best, Best]:
    """By screens. Raises ValueError if nothing can be compared."""
    built_in = {node.id for node in run.nodes() if _is_built_in(run, node)}
    ours = best_of(run, Effort.SCREEN, lambda node: node.id not in built_in)
    theirs = best_of(run, Effort.SCREEN, lambda node: node.id in built_in)
    if ours is None or theirs is None:
        raise ValueError(f"in {run.id} there is no built-in program, or no other one, that is correct")
    value = (theirs.verdict.seconds or math.nan) / (ours.verdict.seconds or math.nan)
    ratios = _resampled(theirs.verdict) / _resampled(ours.verdict)
    low, high = np.quantile(ratios, [0.025, 0.975])
    return Gain(value, float(low), float(high)), ours, theirs


def _resampled(verdict: Verdict) -> NDArray[np.float64]:
    """Device seconds of the candidate, geometric mean over workloads, from its blocks drawn again and again."""
    assert verdict.measurement is not None
    rng = np.random.default_rng(0)
    logs = np.zeros(_DRAWS)
    samples = [s for s in verdict.measurement.samples if s.program == CANDIDATE and s.clock is Clock.DEVICE]
    for sample in samples:
        blocks = np.array([np.median(block) for block in sample.blocks])
        logs += np.log(np.median(rng.choice(blocks, (_DRAWS, len(blocks))), axis=1))
    return np.exp(logs / len(samples))


def _is_built_in(run: Run, node: Node) -> bool:
    """True for a told program of the built-in operators, and for better numbers that were found for one."""
    return _BUILT_IN.match(run.candidate(node.id).source) is not None


def steps(run: Run) -> list[str]:
    """One row for every node: the idea, what became of it, and what held it back."""
    lines = [
        "| node | from | idea | verdict | time | of the roofline | held back by |",
        "|---|---|---|---|---|---|---|",
    ]
    for node in run.nodes():
        verdict = run.verdicts(node.id)[0]
        words = _idea(run, node)
        best = Best(node, verdict)
        timed = [best.microseconds, best.roofline] if verdict.correct else ["–", "–"]
        held = diagnose(verdict).bottleneck.value if verdict.correct else " ".join(verdict.reason.split())[:120]
        parents = ", ".join(map(str, node.parents)) or "–"
        cells = [str(node.id), parents, words.replace("|", "/"), verdict.kind.value, *timed, held.replace("|", "/")]
        lines.append(_row(cells))
    return lines


def _idea(run: Run, node: Node) -> str:
    """The comment at the top of its source; what the numeric search made of it is said before."""
    lines = []
    for line in run.candidate(node.id).source.splitlines():
        if not line.startswith("#"):
            break
        lines += [] if line.startswith(_PARENT) else [line.removeprefix("#").strip()]
    words = " ".join(lines).removeprefix("Idea: ")
    return words if node.operator == AGENT else f"{node.operator}: {words}"


def _row(cells: list[str]) -> str:
    return "| " + " | ".join(cells) + " |"


def _over(speedup: Speedup) -> str:
    return f"{speedup.value:.2f} [{speedup.low:.2f}, {speedup.high:.2f}] ({speedup.baseline})"


def table(runs: dict[str, Run]) -> list[str]:
    """The summary and, for each problem, its steps."""
    head = [
        "problem",
        "programs",
        "built-in best",
        "best",
        "gain [95 %]",
        "× the best baseline",
        "of the roofline",
    ]
    lines = [_row(head), "|" + "---|" * len(head)]
    gains = []
    for problem, run in runs.items():
        gain, ours, theirs = gain_of(run)
        gains.append(gain.value)
        over = min(ours.verdict.speedups.values(), key=lambda speedup: speedup.value)
        told = sum(node.operator == AGENT and not _is_built_in(run, node) for node in run.nodes())
        cells = [
            problem, str(told), theirs.microseconds, ours.microseconds,
            f"{gain.value:.2f} [{gain.low:.2f}, {gain.high:.2f}]", _over(over), ours.roofline,
        ]  # fmt: skip
        lines.append(_row(cells))
    mean = math.exp(sum(map(math.log, gains)) / len(gains))
    lines += ["", f"Geometric mean of the gains over {len(gains)} problems: **{mean:.2f}x**.", ""]
    lines += ["## Strict tests", "", *strict_tests(runs), ""]
    for problem, run in runs.items():
        lines += [f"## {problem}", "", *steps(run), ""]
    return lines


def strict_tests(runs: dict[str, Run]) -> list[str]:
    """One row for every workload of every program that was promoted."""
    lines = [
        "| problem | node | program | workload | sizes | time | of the roofline | × the best baseline, all sizes |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for problem, run in runs.items():
        for node in run.nodes():
            verdict = _latest(run, node, Effort.PROMOTION)
            if verdict is None or not verdict.correct:
                continue
            program = "built-in" if _is_built_in(run, node) else "told"
            over = _over(min(verdict.speedups.values(), key=lambda speedup: speedup.value))
            screen = _latest(run, node, Effort.SCREEN)
            screened = {roofline.workload for roofline in screen.rooflines} if screen is not None else set()
            for roofline in verdict.rooflines:
                sizes = "search" if roofline.workload in screened else "held out"
                time = f"{1e6 * roofline.floor_seconds / (roofline.fraction or math.nan):.1f} µs"
                share = f"{100 * (roofline.fraction or math.nan):.0f} %"
                cells = [problem, str(node.id), program, roofline.workload, sizes, time, share, over]
                lines.append(_row(cells))
                over = ""
    return lines


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("recordings", type=Path, nargs="+")
    given = parser.parse_args()
    runs: dict[str, Run] = {}
    with tempfile.TemporaryDirectory(prefix="kernelevolve-results-") as scratch:
        for path in given.recordings:
            place = Path(scratch) / path.name
            with tarfile.open(path) as archive:
                archive.extractall(place, filter="data")
            run = open_run("last", out=place)
            runs[run.problem.name] = run
        print("\n".join(table(dict(sorted(runs.items())))))


if __name__ == "__main__":
    main()
