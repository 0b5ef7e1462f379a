"""What told candidates gained over the built-in operators' best, from recordings of told searches, as Markdown.

    python benchmarks/told_results.py tests/recordings/*-h200.tar.xz > docs/results/written-nvidia-h200.md

In each recording (``benchmarks/pack_recording.py``) a program that begins with ``# Built-in:`` was found by
``kernelevolve optimize`` and told like the others. The gain is the ratio of two speed-ups over one baseline, that of
the best other program to that of the built-in one, timed by one judge over the same workloads; its interval holds the
noise of both.
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

from kernelevolve.judge.diagnosis import diagnose
from kernelevolve.judge.verdict import Effort, Verdict
from kernelevolve.run import Run
from kernelevolve.search.node import Node
from kernelevolve.search.turns import AGENT
from kernelevolve.workspace import open_run

_BUILT_IN = re.compile(r"# Built-in:")
_IDEA = re.compile(r"^# Idea: (.*(?:\n# (?!parent:|Idea:).*)*)", re.MULTILINE)


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
    baseline: str
    effort: Effort


def best_of(run: Run, effort: Effort, among: Callable[[Node], bool]) -> Best | None:
    """The fastest correct of some nodes by this effort's latest verdict."""
    found = []
    for node in filter(among, run.nodes()):
        verdicts = [verdict for verdict in run.verdicts(node.id) if verdict.effort is effort]
        if verdicts and verdicts[-1].correct and verdicts[-1].seconds:
            found.append(Best(node, verdicts[-1]))
    return min(found, key=lambda best: best.verdict.seconds or math.inf, default=None)


def gain_of(run: Run) -> tuple[Gain, Best, Best]:
    """By promotions if both have one, else by screens. Raises ValueError if nothing can be compared."""
    built_in = {node.id for node in run.nodes() if _is_built_in(run, node)}
    for effort in (Effort.PROMOTION, Effort.SCREEN):
        ours = best_of(run, effort, lambda node: node.id not in built_in)
        theirs = best_of(run, effort, lambda node: node.id in built_in)
        if ours is None or theirs is None:
            continue
        mine, other = ours.verdict.speedups, theirs.verdict.speedups
        shared = [name for name in mine if name in other and mine[name].clock is other[name].clock]
        if shared:
            name = min(shared, key=lambda name: mine[name].value)
            a, b = mine[name], other[name]
            value = a.value / b.value
            down = math.hypot(math.log(a.value / a.low), math.log(b.high / b.value))
            up = math.hypot(math.log(a.high / a.value), math.log(b.value / b.low))
            return Gain(value, value * math.exp(-down), value * math.exp(up), name, effort), ours, theirs
    raise ValueError(f"in {run.id} nothing was timed beside the same baseline as a built-in program")


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
        idea = _IDEA.search(run.candidate(node.id).source)
        words = " ".join(idea.group(1).replace("\n#", " ").split()) if idea else f"({node.operator})"
        best = Best(node, verdict)
        timed = [best.microseconds, best.roofline] if verdict.correct else ["–", "–"]
        held = diagnose(verdict).bottleneck.value if verdict.correct else " ".join(verdict.reason.split())[:120]
        parents = ", ".join(map(str, node.parents)) or "–"
        cells = [str(node.id), parents, words.replace("|", "/"), verdict.kind.value, *timed, held.replace("|", "/")]
        lines.append("| " + " | ".join(cells) + " |")
    return lines


def table(runs: dict[str, Run]) -> list[str]:
    """The summary and, for each problem, its steps."""
    head = ["problem", "programs", "built-in best", "best", "gain [95 %]", "× baseline", "of the roofline", "timed by"]
    lines = ["| " + " | ".join(head) + " |", "|" + "---|" * len(head)]
    gains = []
    for problem, run in runs.items():
        gain, ours, theirs = gain_of(run)
        gains.append(gain.value)
        over = ours.verdict.speedups[gain.baseline]
        told = sum(node.operator == AGENT and not _is_built_in(run, node) for node in run.nodes())
        cells = [
            problem, str(told), theirs.microseconds, ours.microseconds,
            f"{gain.value:.2f} [{gain.low:.2f}, {gain.high:.2f}]", f"{over.value:.2f} ({gain.baseline})", ours.roofline,
            gain.effort.value,
        ]  # fmt: skip
        lines.append("| " + " | ".join(cells) + " |")
    mean = math.exp(sum(map(math.log, gains)) / len(gains))
    lines += ["", f"Geometric mean of the gains over {len(gains)} problems: **{mean:.2f}x**.", ""]
    for problem, run in runs.items():
        lines += [f"## {problem}", "", *steps(run), ""]
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
