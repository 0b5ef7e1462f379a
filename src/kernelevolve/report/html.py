"""The report of a run: one static HTML file that needs no network and runs from the disk."""

from __future__ import annotations

import base64
import hashlib
import os
import tempfile
from pathlib import Path
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined, select_autoescape
from markupsafe import Markup

from kernelevolve.judge.verdict import VerdictKind
from kernelevolve.report import claim, units
from kernelevolve.report.charts import CHART_HEIGHT, CHART_WIDTH, fitness_chart, strip_plots
from kernelevolve.report.contents import Contents, NodeEntry, collect
from kernelevolve.report.diff import steps
from kernelevolve.report.explain import explain, structure_of
from kernelevolve.report.knobs import knobs
from kernelevolve.report.style import VERDICT_COLORS
from kernelevolve.report.tree import lay_out
from kernelevolve.run import Run
from kernelevolve.version import __version__

_SOURCE_BYTES = 6_000_000
"""Sources embedded in all: beyond that, those of the least interesting nodes are left to ``kernelevolve show``."""


def write_report(run: Run, path: Path) -> None:
    """Write the report of a run, finished or not, to ``path``; a reader never sees half a file."""
    text = render(collect(run))
    path.parent.mkdir(parents=True, exist_ok=True)
    descriptor, temporary = tempfile.mkstemp(dir=path.parent, prefix=".report-")
    with os.fdopen(descriptor, "w", encoding="utf-8") as file:
        file.write(text)
    Path(temporary).chmod(0o644)
    Path(temporary).replace(path)


def render(contents: Contents) -> str:
    """The HTML text. Everything that a candidate could have written is escaped by the template engine."""
    environment = Environment(
        loader=PackageLoader("kernelevolve.report"),
        autoescape=select_autoescape(default_for_string=True, default=True),
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    for name in ("seconds_text", "duration_text", "ratio_text", "speedup_text", "share_text"):
        environment.filters[name] = getattr(units, name)
    loader = environment.loader
    assert loader is not None
    script = loader.get_source(environment, "report.js")[0]
    best = contents.best
    measurement = best.verdict.measurement if best is not None else None
    return environment.get_template("report.html.j2").render(
        contents=contents,
        summary=contents.summary,
        best=best,
        claim=claim.state_claim(best.verdict if best else None, best is not None and best.promoted),
        control=claim.control_sentence(contents.control, len(contents.entries)),
        tree=lay_out(contents),
        chart=fitness_chart(contents),
        chart_size=(CHART_WIDTH, CHART_HEIGHT),
        strips=strip_plots(measurement) if measurement is not None else (),
        baselines=_baselines(contents),
        explanation=explain(best) if best is not None else (),
        knobs=knobs(contents),
        steps=steps(contents),
        details=_details(contents),
        colors={kind.value: pair for kind, pair in VERDICT_COLORS.items()},
        kinds=[kind.value for kind in VerdictKind if kind.value in contents.summary.verdicts],
        version=__version__,
        style=Markup(loader.get_source(environment, "report.css")[0]),
        script=Markup(script),
        # Even a flaw in the escaping could then not run a script or fetch anything.
        script_hash=base64.b64encode(hashlib.sha256(script.encode()).digest()).decode(),
    )


def _baselines(contents: Contents) -> list[dict[str, Any]]:
    """One row a baseline: seconds beside the kernel if it was timed there, else those of the start."""
    best = contents.best
    speedups = best.verdict.speedups if best is not None else {}
    measurement = best.verdict.measurement if best is not None else None
    names = [*speedups, *(name for name in contents.summary.baselines if name not in speedups)]
    return [
        {
            "name": name,
            "speedup": speedups.get(name),
            "outcome": claim.outcome_word(speedups[name], best.verdict) if best and name in speedups else "",
            "seconds": measurement.seconds(name)
            if measurement is not None and name in speedups
            else contents.summary.baselines.get(name),
        }
        for name in names
    ]


def _details(contents: Contents) -> dict[str, Any]:
    """What the script shows when a node is chosen; sources are kept once each."""
    sources: list[str] = []
    index: dict[str, int] = {}
    room = _SOURCE_BYTES
    interesting = [*contents.lineage, *sorted(contents.entries, key=lambda e: -e.node.fitness)]
    for entry in interesting:
        digest = entry.candidate.source_digest
        size = len(entry.candidate.source)
        if digest not in index and size <= room:
            index[digest] = len(sources)
            sources.append(entry.candidate.source)
            room -= size
    return {
        "run": contents.summary.run,
        "sources": sources,
        "nodes": [_detail(entry, index.get(entry.candidate.source_digest)) for entry in contents.entries],
    }


def _detail(entry: NodeEntry, source: int | None) -> dict[str, Any]:
    verdict = entry.verdict
    facts: list[tuple[str, str]] = [
        ("operator", entry.node.operator),
        ("parents", ", ".join(map(str, entry.node.parents)) or "none (a draft)"),
        ("language", entry.candidate.language),
        ("judged after", units.duration_text(entry.elapsed)),
        ("stage", f"{verdict.stage} ({verdict.effort})"),
    ]
    if verdict.seconds is not None:
        facts.append(("time per call", f"{units.seconds_text(verdict.seconds)} (measured)"))
    if verdict.roofline_fraction is not None:
        facts.append(("of the roofline", f"{units.share_text(verdict.roofline_fraction)} (floor estimated)"))
    facts += [
        (f"against {s.baseline}", f"{units.speedup_text(s)} {s.clock} time, {claim.outcome_word(s, verdict)}")
        for s in verdict.speedups.values()
    ]
    if entry.candidate.config:
        facts.append(("configuration", ", ".join(f"{k} = {v!r}" for k, v in entry.candidate.config.items())))
    if entry.trials:
        facts.append(("trials", f"{len(entry.trials)} configurations timed"))
    facts += [("structure", f"{name} = {choice}") for name, choice in structure_of(entry).items()]
    facts += [("note", note) for note in verdict.notes]
    times = f"building {verdict.seconds_building:.2f} s, running {verdict.seconds_running:.2f} s"
    facts.append(("judge's time", f"{times}, in all {verdict.seconds_total:.2f} s"))
    return {
        "id": entry.node.id,
        "kind": verdict.kind.value,
        "reason": verdict.reason,
        "detail": verdict.detail,
        "facts": facts,
        "source": source,
    }
