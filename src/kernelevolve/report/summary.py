"""The last word of a run, and of a single judgement, on the terminal."""

from __future__ import annotations

from pathlib import Path

from rich.console import Console
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from kernelevolve.judge.verdict import Effort, Verdict, VerdictKind
from kernelevolve.report import money
from kernelevolve.report.claim import Standing, control_sentence, outcome_word, state_claim
from kernelevolve.report.contents import Contents
from kernelevolve.report.explain import explain
from kernelevolve.report.style import OUTCOME_STYLES, VERDICT_STYLES
from kernelevolve.report.units import MISSING, duration_text, seconds_text, share_text, speedup_text

_STANDING_STYLES = {
    Standing.WIN: "bold green",
    Standing.NO_WIN: "bold yellow",
    Standing.UNPROVEN: "bold yellow",
    Standing.NOTHING: "bold red",
}
_FAILURES_SHOWN = 8


def print_summary(console: Console, contents: Contents, directory: Path) -> None:
    """What was found, against what, at what cost, what failed, and where the files are."""
    summary, best = contents.summary, contents.best
    claim = state_claim(best.verdict if best else None, best is not None and best.promoted)
    console.print()
    console.print(Text(f"{summary.problem} on {summary.target} ({summary.device or 'device unknown'})", "bold"))
    console.print(Text(claim.headline, _STANDING_STYLES[claim.standing]))
    console.print(Text(claim.basis, "dim"))
    if best is not None:
        console.print()
        console.print(_baseline_table(best.verdict, contents.summary.baselines))
        for sentence in explain(best):
            console.print(Padding(Text(sentence), (0, 0, 0, 2)))
    console.print()
    console.print(_cost_table(contents))
    if contents.failures:
        console.print()
        console.print(Text("What failed, and why", "bold"))
        console.print(_failure_table(contents))
    console.print()
    console.print(_file_table(directory))


def print_verdict(console: Console, verdict: Verdict) -> None:
    """A single judgement."""
    line = Text()
    line.append(verdict.kind.replace("_", " "), VERDICT_STYLES[verdict.kind])
    line.append(f" at stage {verdict.stage}")
    console.print(line)
    if verdict.reason:
        console.print(Text(verdict.reason), soft_wrap=True)
    if verdict.detail:
        console.print(Padding(Text(verdict.detail), (0, 0, 0, 2)), soft_wrap=True)
    if verdict.correct:
        claim = state_claim(verdict, verdict.effort is Effort.PROMOTION)
        console.print(Text(claim.headline, _STANDING_STYLES[claim.standing]))
        console.print(Text(claim.basis, "dim"))
        console.print()
        console.print(_baseline_table(verdict, {}))
        if verdict.roofline_fraction is not None:
            console.print(f"{share_text(verdict.roofline_fraction)} of the roofline (floor estimated)")
    for note in verdict.notes:
        console.print(Text(f"note: {note}", "dim"))


def _baseline_table(verdict: Verdict, at_start: dict[str, float | None]) -> Table:
    """Measured times beside each other; a baseline that could not run is named, not dropped."""
    table = Table(box=None, header_style="dim", padding=(0, 3, 0, 0))
    table.add_column("program", no_wrap=True)
    table.add_column("measured time", justify="right", no_wrap=True)
    table.add_column("speed-up [95 % interval]", justify="right", no_wrap=True)
    table.add_column("clock")
    table.add_column("the kernel is", no_wrap=True)
    table.add_row(Text("this kernel", "bold"), Text(seconds_text(verdict.seconds), "bold"))
    for speedup in verdict.speedups.values():
        seconds = verdict.measurement.seconds(speedup.baseline) if verdict.measurement is not None else None
        outcome = outcome_word(speedup, verdict)
        table.add_row(
            speedup.baseline, seconds_text(seconds), speedup_text(speedup), speedup.clock.value,
            Text(outcome, OUTCOME_STYLES.get(outcome, "yellow")),
        )  # fmt: skip
    for name, seconds in at_start.items():
        if name not in verdict.speedups:
            shown = "could not run" if seconds is None else seconds_text(seconds)
            table.add_row(name, shown, MISSING, "", "not compared")
    return table


def _cost_table(contents: Contents) -> Table:
    summary = contents.summary
    table = Table.grid(padding=(0, 3, 0, 0))
    counts = Text()
    for at, (kind, entries) in enumerate(_by_kind(contents)):
        counts.append(", " if at else "")
        counts.append(f"{entries} {kind.replace('_', ' ')}", VERDICT_STYLES[kind])
    table.add_row(Text("evaluations", "dim"), Text.assemble(f"{summary.evaluations}  (", counts, ")"))
    table.add_row(Text("trials", "dim"), f"{summary.trials}  (timings of configurations inside them, counted apart)")
    if summary.models is not None:
        table.add_row(Text("models", "dim"), money.summary_words(summary.models))
    table.add_row(Text("wall time", "dim"), duration_text(summary.seconds))
    table.add_row(Text("control", "dim"), control_sentence(contents.control, len(contents.entries)))
    why = summary.reason if summary.reason != summary.status else ""
    table.add_row(Text("status", "dim"), f"{summary.status}: {why}" if why else str(summary.status))
    return table


def _by_kind(contents: Contents) -> list[tuple[VerdictKind, int]]:
    return [(kind, n) for kind in VerdictKind if (n := contents.summary.verdicts.get(kind.value, 0))]


def _failure_table(contents: Contents) -> Table:
    table = Table(box=None, show_header=False, padding=(0, 2, 0, 0))
    table.add_column(justify="right")
    table.add_column(no_wrap=True)
    table.add_column()
    for failure in contents.failures[:_FAILURES_SHOWN]:
        kind = Text(failure.kind.replace("_", " "), VERDICT_STYLES[failure.kind])
        nodes = ", ".join(map(str, failure.nodes[:4])) + (" …" if len(failure.nodes) > 4 else "")
        table.add_row(f"{len(failure.nodes)}×", kind, Text(f"{failure.stage}: {failure.reason} (node {nodes})"))
    rest = contents.failures[_FAILURES_SHOWN:]
    if rest:
        table.add_row(f"{sum(len(f.nodes) for f in rest)}×", "others", f"{len(rest)} rarer reasons, all in the report")
    return table


def _file_table(directory: Path) -> Table:
    table = Table.grid(padding=(0, 3, 0, 0))
    for name, file in (
        ("kernel", directory / "best" / "kernel.py"),
        ("certificate", directory / "best" / "certificate.json"),
        ("report", directory / "report.html"),
    ):
        if file.exists():
            # Without wrapping, so that the path can be copied.
            table.add_row(Text(name, "dim"), Text(str(file), overflow="ignore", no_wrap=True))
    return table
