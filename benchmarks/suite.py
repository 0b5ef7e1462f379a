"""Search every ranking problem, or every file given, on one target; write the results, wins and losses alike.

    python benchmarks/suite.py --target cpu --evaluations 60 --minutes 6 --out runs/ranking-cpu
    python benchmarks/suite.py --target nvidia --minutes 2 --table docs/results/ranking-nvidia.md
    python benchmarks/suite.py --files KernelBench/level1/2*.py --scale 0.0625 --minutes 1 --out runs/kernelbench

Each problem is a process of its own (``kernelevolve optimize … --json``), so one that crashes costs one row. A problem
whose result is already in ``--out`` is not searched again: a run that was cut off goes on where it stopped.
"""

from __future__ import annotations

import argparse
import json
import math
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kernelevolve.problems.suites import ranking


@dataclass(frozen=True)
class Row:
    """One problem's outcome, as the command line reported it."""

    problem: str
    document: dict[str, Any]
    seconds: float

    @property
    def best(self) -> dict[str, Any]:
        return self.document.get("best") or {}

    @property
    def against_best(self) -> tuple[str, dict[str, Any]] | None:
        """The strongest baseline and the speed-up against it: the smallest of all."""
        speedups = self.best.get("speedup") or {}
        return min(speedups.items(), key=lambda item: item[1]["value"]) if speedups else None


def search(problem: str, place: str, options: argparse.Namespace) -> Row:
    """Run one search, or read the outcome of an earlier one. ``place`` is what the command line calls the problem."""
    record = options.out / f"{problem}.json"
    if record.exists():
        stored = json.loads(record.read_text())
        return Row(problem, stored["document"], stored["seconds"])
    command = [
        sys.executable, "-m", "kernelevolve.cli", "optimize", place, "--target", options.target,
        "--evaluations", str(options.evaluations), "--minutes", str(options.minutes), "--seed", str(options.seed),
        "--out", str(options.out / "runs"), "--json",
        *([] if options.scale is None else ["--scale", str(options.scale)]),
    ]  # fmt: skip
    started = time.monotonic()
    with (options.out / f"{problem}.log").open("w") as log:
        finished = subprocess.run(command, stdout=subprocess.PIPE, stderr=log, text=True, check=False)
    seconds = time.monotonic() - started
    try:
        document = json.loads(finished.stdout)
    except json.JSONDecodeError:
        said = (options.out / f"{problem}.log").read_text().strip().splitlines()
        document = {"error": said[-1] if said and finished.returncode == 2 else f"exit code {finished.returncode}"}
    record.write_text(json.dumps({"document": document, "seconds": seconds}, indent=1))
    return Row(problem, document, seconds)


def time_text(seconds: float | None) -> str:
    """Seconds in the unit that reads best."""
    if seconds is None:
        return "–"
    return f"{seconds * 1e6:.1f} µs" if seconds < 1e-3 else f"{seconds * 1e3:.2f} ms"


def table(rows: list[Row], options: argparse.Namespace) -> str:
    """The results as Markdown, with the losses named and the environment below."""
    names = list(dict.fromkeys(name for row in rows for name in row.best.get("baseline_seconds", {})))
    head = ["problem", *names, "found", "language", "× the best baseline [95 %]", "of the roofline"]
    head += ["evaluations", "trials", "ended"]
    lines = ["| " + " | ".join(head) + " |", "|" + "---|" * len(head)]
    ratios: list[float] = []
    losses: list[str] = []
    for row in rows:
        best, against = row.best, row.against_best
        if against is None:
            reason = row.document.get("error") or row.document.get("reason") or "no correct candidate"
            cells = [row.problem, *["–"] * len(names), f"no verdict: {reason}", *["–"] * 6]
            lines.append("| " + " | ".join(cells) + " |")
            losses.append(f"{row.problem} (nothing found)")
            continue
        name, speedup = against
        ratios.append(speedup["value"])
        if not best.get("faster"):
            noise = ", within the noise that the judge measured" if speedup["low"] > 1.0 else ""
            losses.append(f"{row.problem} ({speedup['value']:.2f}x against {name}{noise})")
        fraction = best.get("roofline_fraction")
        cells = [
            row.problem,
            *(time_text(best.get("baseline_seconds", {}).get(n)) for n in names),
            time_text(best.get("seconds")),
            best.get("language", "–"),
            f"{speedup['value']:.2f} [{speedup['low']:.2f}, {speedup['high']:.2f}] ({name}, {speedup['clock']})",
            "–" if fraction is None else f"{100 * fraction:.0f} %",
            str(row.document.get("evaluations", "–")),
            str(row.document.get("trials", "–")),
            row.document.get("reason", "–"),
        ]
        lines.append("| " + " | ".join(cells) + " |")
    geomean = math.exp(sum(map(math.log, ratios)) / len(ratios)) if ratios else float("nan")
    environments = [row.document["environment"] for row in rows if row.document.get("environment")]
    shared = set.intersection(*(set(e.items()) for e in environments)) if environments else set()
    lines += [
        "",
        f"Geometric mean over the best baseline of each problem: **{geomean:.2f}x** "
        f"({len(ratios)} of {len(rows)} problems have a verified kernel; the others are not in the mean).",
        "",
        f"Not called faster by the judge: {', '.join(losses) or 'none'}.",
        "",
        f"Made by `{command_line(options)}` in {sum(r.seconds for r in rows) / 60:.0f} minutes. "
        "Times are medians over interleaved blocks, geometric mean over the timed workloads of a problem.",
        "",
        "| environment of every search | |",
        "|---|---|",
        *(f"| {key} | {value} |" for key, value in sorted(shared)),
        "",
    ]
    return "\n".join(lines)


def command_line(options: argparse.Namespace) -> str:
    """What makes such a table again."""
    words = ["python benchmarks/suite.py", *(["--files …"] if options.files else []), f"--target {options.target}"]
    words += [f"--evaluations {options.evaluations}", f"--minutes {options.minutes:g}", f"--seed {options.seed}"]
    words += [] if options.scale is None else [f"--scale {options.scale:g}"]
    return " ".join(words)


def main() -> None:
    """Search, then print and write the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--target", default="cpu")
    parser.add_argument("--evaluations", type=int, default=60)
    parser.add_argument("--minutes", type=float, default=6.0)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", nargs="*", help="problem names; all of the suite if left out")
    parser.add_argument("--files", nargs="*", type=Path, help="problem files, instead of the ranking problems")
    parser.add_argument("--scale", type=float, help="multiply the batch of every problem")
    parser.add_argument("--out", type=Path, default=Path("runs/ranking"))
    parser.add_argument("--table", type=Path, help="also write the table to this file")
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    rows = []
    places = {n: f"ranking/{n}" for n in options.only or ranking.names()}
    if options.files:
        places = {f"{path.parent.name}-{path.stem}": str(path) for path in options.files}
    for problem, place in places.items():
        rows.append(search(problem, place, options))
        against = rows[-1].against_best
        outcome = f"{against[1]['value']:.2f}x {against[0]}" if against else rows[-1].document
        print(problem, outcome, file=sys.stderr, flush=True)
    text = table(rows, options)
    if options.table:
        options.table.parent.mkdir(parents=True, exist_ok=True)
        options.table.write_text(
            f"# {'Problem files' if options.files else 'Ranking problems'}, target {options.target}\n\n{text}"
        )
    print(text)


if __name__ == "__main__":
    main()
