"""A diagnosis in the terminal: the bottleneck, the distance to the ceiling, what to do, and the evidence."""

from __future__ import annotations

from rich.console import Console
from rich.table import Table
from rich.text import Text

from kernelevolve.judge.verdict import Verdict
from kernelevolve.profilers import Bottleneck, Diagnosis, Evidence
from kernelevolve.report.style import VERDICT_STYLES
from kernelevolve.report.units import MISSING, amount_text, seconds_text, share_text

_EVIDENCE_SHOWN = 24
_NAME_WIDTH = 48


def print_diagnosis(console: Console, verdict: Verdict, diagnosis: Diagnosis) -> None:
    """The verdict first: what a profiler says of a wrong kernel is worth less."""
    console.print(Text(verdict.kind.replace("_", " "), VERDICT_STYLES[verdict.kind]))
    if verdict.reason:
        console.print(Text(verdict.reason), soft_wrap=True)
    style = "yellow" if diagnosis.bottleneck is Bottleneck.UNKNOWN else "bold"
    console.print(Text(diagnosis.summary, style), soft_wrap=True)
    console.print(Text(_distance(diagnosis), "dim"), soft_wrap=True)
    for suggestion in diagnosis.suggestions:
        console.print(Text(f"→ {suggestion.text}", "cyan"), soft_wrap=True)
    if diagnosis.evidence:
        console.print()
        console.print(_evidence_table(diagnosis.evidence))
    if diagnosis.missing:
        console.print()
        for name, reason in diagnosis.missing.items():
            console.print(Text(f"{name}: {reason}", "dim"), soft_wrap=True)


def _distance(diagnosis: Diagnosis) -> str:
    distance = diagnosis.distance
    where = f"workload {diagnosis.workload}: " if diagnosis.workload else ""
    measured = f"{seconds_text(distance.measured_seconds)} {distance.clock} time a call"
    if distance.measured_seconds is None:
        measured = "not timed"
    if distance.floor_seconds is None:
        return f"{where}{measured}"
    floor = f"the estimated floor is {seconds_text(distance.floor_seconds)} ({distance.floor_bound})"
    reached = f", {share_text(distance.fraction)} of the roofline" if distance.fraction is not None else ""
    return f"{where}{measured}, {floor}{reached}"


def _evidence_table(evidence: tuple[Evidence, ...]) -> Table:
    table = Table(box=None, header_style="dim", padding=(0, 2, 0, 0))
    for title, justify in (("profiler", "left"), ("metric", "left"), ("value", "right")):
        table.add_column(title, justify=justify, no_wrap=True)  # type: ignore[arg-type]
    table.add_column("of")
    table.add_column("detail")
    for item in evidence[:_EVIDENCE_SHOWN]:
        subject = item.subject if len(item.subject) <= _NAME_WIDTH else item.subject[: _NAME_WIDTH - 1] + "…"
        where = subject or (str(item.place) if item.place is not None else "")
        detail = item.detail or (item.place.text if item.place is not None else "")
        table.add_row(item.profiler, item.metric.replace("_", " "), _value(item), where, detail)
    rest = len(evidence) - _EVIDENCE_SHOWN
    if rest > 0:
        table.add_row("", f"{rest} more with --json", MISSING, "", "")
    return table


def _value(item: Evidence) -> str:
    if item.unit == "share":
        return share_text(item.value)
    if item.unit == "s":
        return seconds_text(item.value)
    if item.unit == "B":
        return amount_text(item.value, "B")
    number = f"{item.value:.3g}" if abs(item.value) < 1000 else amount_text(item.value, "").strip()
    return f"{number} {item.unit}".strip()
