"""The sections of a prompt: what each shows of a context, and the shorter versions of it."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

from jinja2 import Environment

from kernelevolve.judge.diagnosis import diagnose
from kernelevolve.judge.verdict import OutputError
from kernelevolve.profilers import Diagnosis
from kernelevolve.prompting.context import Memory, PromptContext
from kernelevolve.prompting.digest import tuning_digest
from kernelevolve.prompting.rendering import text_environment
from kernelevolve.prompting.retrieval import Found
from kernelevolve.prompting.section import Section, Version
from kernelevolve.prompting.trimming import changed, fenced, shortened, trimmed_log, visible

EDITS_ABOVE = 200
"""Lines of a program from which on an answer changes it by edits instead of writing it again."""
_MUST = 100
"""Importance of what no prompt can do without."""
_REASON_LENGTH = 240


def sections_of(context: PromptContext) -> list[Section]:
    """The sections in the order in which they are read; those that have nothing to say are not there."""
    found = [
        _always("task", "task", context=context),
        _problem(context),
        _target(context),
        _writing(context),
        *(_program(context, number) for number in range(len(context.parents))),
        _verdict(context),
        _diagnosis(context),
        _analysis(context),
        _tuning(context),
        _trajectory(context),
        _siblings(context),
        _best(context),
        _pages(context),
        _skills(context),
        _always("answer", "answer", context=context, edits=_by_edits(context), edits_above=EDITS_ABOVE),
    ]
    return [section for section in found if section is not None]


def _by_edits(context: PromptContext) -> bool:
    return len(context.parents) == 1 and context.parents[0].candidate.source.count("\n") >= EDITS_ABOVE


def _target(context: PromptContext) -> Section:
    ceilings, parts = context.ceilings, []
    if ceilings is not None:
        parts = [
            f"read {_giga(ceilings.read_bandwidth)}B/s", f"copy {_giga(ceilings.copy_bandwidth)}B/s",
            f"an empty call {_microseconds(ceilings.launch_seconds)}",
            *(f"{dtype} {_giga(rate)}flop/s" for dtype, rate in ceilings.flops.items()),
        ]  # fmt: skip
    baselines = [
        f"{name} {'could not run' if seconds is None else _microseconds(seconds)}"
        for name, seconds in context.baselines.items()
    ]
    return _always("target", "target", context=context, ceilings=", ".join(parts), baselines=", ".join(baselines))


def _problem(context: PromptContext) -> Section:
    source = context.problem.source
    return _cut_down("problem", "problem", 90, source, (400, 120), "lines from the middle of the reference",
                     context=context)  # fmt: skip


def _program(context: PromptContext, number: int) -> Section:
    step = context.parents[number]
    kept = tuning_digest(step)
    name = "program" if len(context.parents) == 1 else f"program {number + 1} of {len(context.parents)}"
    return _cut_down(name, "program", 80 - number, step.candidate.source, (600, 250, 80),
                     f"lines from the middle of the program of node {step.node_id}",
                     step=step, title=name, tuned=kept is not None)  # fmt: skip


def _writing(context: PromptContext) -> Section:
    guides = [language for language in context.languages if _has_template(f"writing_{language}.md.j2")]
    full = _render("writing", context=context, guides=guides)
    short = _render("writing", context=context, guides=guides[:1])
    versions = [Version(full)]
    if len(guides) > 1:
        versions.append(Version(short, f"how to write {', '.join(guides[1:])}"))
    return Section("writing", 60, tuple(versions))


def _verdict(context: PromptContext) -> Section | None:
    if not context.parents:
        return None
    step = context.parents[0]
    first = _first_error(step.verdict.errors)
    versions: list[Version] = []
    for lines in (60, 24, 8):
        log, missing = trimmed_log(step.verdict.detail, lines)
        text = _render("verdict", step=step, first=first, log=log, missing=missing, context=context)
        said = f"{missing} lines of the compiler's or the program's output" if missing else ""
        if not versions or text != versions[-1].text:
            versions.append(Version(text, said))
    return Section("verdict", 85, tuple(versions))


def _first_error(errors: Sequence[OutputError]) -> OutputError | None:
    return next((error for error in errors if not error.passed), None)


def _diagnosis(context: PromptContext) -> Section | None:
    diagnosis = _diagnosed(context)
    if diagnosis is None:
        return None
    return _levels("diagnosis", 50, "diagnosis", [
        ({"evidence": diagnosis.evidence[:16], "suggestions": diagnosis.suggestions[:8]}, ""),
        ({"evidence": (), "suggestions": diagnosis.suggestions[:3]}, "the evidence, and all suggestions but three"),
    ], diagnosis=diagnosis)  # fmt: skip


def _diagnosed(context: PromptContext) -> Diagnosis | None:
    """What holds the first parent back; of a program that was not timed nothing is known."""
    if not context.parents or not context.parents[0].verdict.correct:
        return None
    launch = context.ceilings.launch_seconds if context.ceilings is not None else None
    return context.diagnosis or diagnose(context.parents[0].verdict, launch_seconds=launch)


def _analysis(context: PromptContext) -> Section | None:
    analysis = context.analysis
    if analysis is None:
        return None
    return _levels("analysis", 48, "analysis", [
        ({"evidence": analysis.evidence[:8], "ideas": analysis.ideas[:6]}, ""),
        ({"evidence": (), "ideas": analysis.ideas[:2]}, "its evidence, and all ideas but two"),
    ], analysis=analysis)  # fmt: skip


def _tuning(context: PromptContext) -> Section | None:
    digest = tuning_digest(context.parents[0]) if context.parents else None
    if digest is None:
        return None
    return _levels("tuning", 45, "tuning", [
        ({"lines": digest.lines}, ""), ({"lines": digest.lines[:3]}, "all tunables but the three that matter most"),
    ], digest=digest)  # fmt: skip


def _trajectory(context: PromptContext) -> Section | None:
    """How the parent came to be, the oldest step first."""
    if context.memory not in (Memory.INHERIT, Memory.BOTH) or not context.ancestors:
        return None
    line = [context.parents[0], *context.ancestors]
    count = len(line) - 1

    def steps(shown: int, diffs: int, lines: int) -> list[dict[str, Any]]:
        return [
            {
                "step": line[i],
                "diff": changed(line[i + 1].candidate.source, line[i].candidate.source, lines) if i < diffs else "",
                "reason": _one_line(line[i].verdict.reason),
            }
            for i in range(min(shown, count))
        ][::-1]

    return _levels("trajectory", 30, "trajectory", [
        ({"steps": steps(count, 3, 60)}, "the changes of all steps but the last three" if count > 3 else ""),
        ({"steps": steps(24, 2, 40)}, f"{_beyond(count, 24)}the changes of all steps but the last two"),
        ({"steps": steps(12, 1, 20)}, f"{_beyond(count, 12)}the changes of all steps but the last"),
        ({"steps": steps(6, 0, 0)}, f"{_beyond(count, 6)}what each step changed"),
        ({"steps": []}, f"the {count} steps that led to the program"),
    ], total=count, origin=line[-1])  # fmt: skip


def _beyond(count: int, shown: int) -> str:
    return f"the {count - shown} oldest steps, and " if count > shown else ""


def _siblings(context: PromptContext) -> Section | None:
    """What else was tried from here: failures first, for they cost the most when repeated, then the fastest."""
    if context.memory not in (Memory.SIBLINGS, Memory.BOTH) or not context.siblings:
        return None
    failed = [step for step in reversed(context.siblings) if not step.verdict.correct]
    worked = sorted((step for step in context.siblings if step.verdict.correct), key=lambda step: -step.fitness)
    origin = context.parents[0].candidate.source if context.parents else None

    def entries(shown: int, lines: int) -> list[dict[str, Any]]:
        chosen = [*failed[: math.ceil(shown * 2 / 3)], *worked][:shown]
        return [
            {
                "step": step,
                "reason": _one_line(step.verdict.reason),
                "diff": changed(origin, step.candidate.source, lines) if origin is not None and lines else "",
            }
            for step in chosen
        ]

    count = len(context.siblings)
    return _levels("siblings", 35, "siblings", [
        ({"entries": entries(8, 30)}, _all_but(count, 8)),
        ({"entries": entries(5, 12)}, _all_but(count, 5) or "part of what they changed"),
        ({"entries": entries(4, 0)}, (_all_but(count, 4) + ", and " if count > 4 else "") + "what they changed"),
        ({"entries": []}, f"the {count} other programs made from here"),
    ], context=context, total=count)  # fmt: skip


def _all_but(count: int, shown: int) -> str:
    return f"{count - shown} of {count} siblings" if count > shown else ""


def _best(context: PromptContext) -> Section | None:
    best = context.best
    if best is None or any(step.node_id == best.node_id for step in context.parents):
        return None
    full = _render("best", best=best, source=best.candidate.source)
    short = _render("best", best=best, source="")
    versions = (Version(full), Version(short, f"the source of the best program, node {best.node_id}"))
    # A clean start is to lead away from what has been found; it hears only how fast that is.
    return Section("best", 20, versions[1:] if context.memory is Memory.CLEAN else versions)


def _pages(context: PromptContext) -> Section | None:
    return _listed("knowledge", 40, "pages", context.found) if context.found else None


def _skills(context: PromptContext) -> Section | None:
    # A clean start is to lead away from what was found, here or elsewhere.
    if not context.skills or context.memory is Memory.CLEAN:
        return None
    return _listed("skills", 38, "skills", context.skills)


def _listed(name: str, importance: int, template: str, pages: Sequence[Found]) -> Section:
    """A section of pages, of which the last ones are cut first."""
    versions = [Version(_render(template, pages=pages[:n], total=len(pages)), _pages_left(pages, n))
                for n in range(len(pages), 0, -1)]  # fmt: skip
    return Section(name, importance, (*versions, Version("", _pages_left(pages, 0))))


def _pages_left(pages: Sequence[Found], shown: int) -> str:
    rest = [page.page_id for page in pages[shown:]]
    return f"the pages {', '.join(rest)}" if rest else ""


def _one_line(text: str) -> str:
    """A short foreign text for use between quotation marks, which it cannot close."""
    line = visible(" ".join(text.split())).replace('"', "'")
    return line if len(line) <= _REASON_LENGTH else line[: _REASON_LENGTH - 1] + "…"


# Rendering


def _always(name: str, template: str, **values: Any) -> Section:
    return Section(name, _MUST, (Version(_render(template, **values)),))


def _levels(
    name: str, importance: int, template: str, levels: Sequence[tuple[dict[str, Any], str]], **values: Any
) -> Section:
    """A section whose versions differ in the values given to its template; equal ones count once."""
    versions: list[Version] = []
    for own, left_out in levels:
        text = _render(template, **values, **own) if any(own.values()) or not versions else ""
        if not versions or text != versions[-1].text:
            versions.append(Version(text, left_out))
    if versions[-1].text:
        versions.append(Version("", f"the whole section about {name}"))
    return Section(name, importance, tuple(versions))


def _cut_down(
    name: str, template: str, importance: int, source: str, lengths: Sequence[int], what: str, **values: Any
) -> Section:
    """A section that holds a source, shortened in its middle when need be."""
    versions = [Version(_render(template, source=source, **values))]
    total = source.count("\n") + 1
    for length in lengths:
        if length < total:
            text = _render(template, source=shortened(source, length), **values)
            versions.append(Version(text, f"{total - length} {what}"))
    return Section(name, importance, tuple(versions))


def _render(template: str, **values: Any) -> str:
    return _environment().get_template(f"{template}.md.j2").render(**values).strip()


@cache
def _environment() -> Environment:
    """What a candidate wrote is only ever a value, never a template."""
    environment = text_environment("kernelevolve.prompting")
    filters: dict[str, Callable[..., str]] = {
        "fenced": fenced, "microseconds": _microseconds, "share": _share, "one_line": _one_line,
    }  # fmt: skip
    environment.filters.update(filters)
    return environment


@cache
def _has_template(name: str) -> bool:
    return name in _environment().list_templates()


def _microseconds(seconds: float | None) -> str:
    return "not known" if seconds is None else f"{seconds * 1e6:.4g} µs"


def _share(fraction: float | None) -> str:
    return "not known" if fraction is None else f"{100 * fraction:.3g} %"


def _giga(value: float) -> str:
    return f"{value / 1e9:.4g} G"
