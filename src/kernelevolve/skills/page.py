"""A skill as a page: Markdown in the manner of the knowledge base, with the record itself in its front matter.

What stands between code marks was written by programs. It is data: short printable lines that can end no mark.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

from pydantic import ValidationError

from kernelevolve.errors import InvalidRequest
from kernelevolve.knowledge import Page
from kernelevolve.knowledge.lint import check_page
from kernelevolve.knowledge.page import FrontMatter, InvalidPage, split_front_matter
from kernelevolve.knowledge.vocabulary import ANY, BOTTLENECKS, TARGETS, Phase, language_word
from kernelevolve.prompting.trimming import visible
from kernelevolve.skills.records import ChainStep, Skill

Writer = Callable[[str], str]
"""Turns the facts of a skill into prose, such as a language model does."""

_FIELD = "skill"
_FIX = "delete the file; 'kernelevolve finish RUN' writes it again"
_OPERATORS = 10
_PROSE_WORDS = 300
_NUMBER = re.compile(r"\d+(?:[.,]\d+)*")
_MARKER = re.compile(r"\[\d+\]")
_NOT_PROSE = re.compile(r"^ {0,3}(?:#|```|~~~|---|===)|<|\]\(|://", re.MULTILINE)
"""What could pose as a part of the page or of a prompt, or lead elsewhere."""


@dataclass(frozen=True, slots=True)
class SkillPage:
    """A skill, the page that shows it, and the text of the file."""

    skill: Skill
    page: Page
    text: str


def page_of(skill: Skill, writer: Writer | None = None) -> SkillPage:
    """The page of a skill.

    What ``writer`` makes of its facts is put in front if it passes the lint of knowledge pages and has no number that
    the facts have not; else, or if the writer fails, the facts stand alone.
    """
    facts = _facts(skill)
    page = _page(skill, facts)
    if writer is not None:
        try:
            prose = visible(writer(facts)).strip()
        except Exception:  # a skill is worth having without prose, whatever is wrong with its writer
            prose = ""
        told = _page(skill, f"## In words\n\n{prose}\n\n{facts}")
        if prose and objection(prose, facts) is None and not any(check_page(told, {told.id})):
            page = told
    front = {name: list(value) if isinstance(value, tuple) else value for name, value in page.front}
    lines = [f"{name}: {_yaml(value)}" for name, value in front.items()]
    lines.append(f"{_FIELD}: {_yaml(skill.model_dump(mode='json'))}")
    return SkillPage(skill, page, "\n".join(["---", *lines, "---", "", f"# {page.title}", "", page.body, ""]))


def parse_skill(text: str, path: Path | str | None = None) -> SkillPage:
    """Read the page of a skill. Raises InvalidPage."""
    data, body, line = split_front_matter(text, path)
    if data is None or _FIELD not in data:
        raise InvalidPage("the page has no skill in its front matter", fix=_FIX, path=path, line=1)
    try:
        skill = Skill.model_validate(data.pop(_FIELD))
        front = FrontMatter.model_validate(data)
    except ValidationError as error:
        first = error.errors()[0]
        place = ".".join(map(str, first["loc"]))
        raise InvalidPage(f"the front matter is wrong in {place!r}", fix=_FIX, path=path, line=1) from None
    heading, _, rest = body.strip().partition("\n")
    if not heading.startswith("# "):
        raise InvalidPage("the page has no title", fix=_FIX, path=path, line=line)
    page = Page(id=_id(skill.run), title=heading.removeprefix("# "), body=rest.strip(), front=front)
    return SkillPage(skill, page, text)


def objection(prose: str, facts: str) -> str | None:
    """Why a writer's text is not kept, in a few words; None if it may be."""
    if len(prose.split()) > _PROSE_WORDS:
        return f"it has more than {_PROSE_WORDS} words"
    if _NOT_PROSE.search(prose):
        return "it is not plain prose"
    known = set(_NUMBER.findall(facts))
    unknown = [number for number in _NUMBER.findall(_MARKER.sub("", prose)) if number not in known]
    return f"the facts have no {unknown[0]}" if unknown else None


def _page(skill: Skill, body: str) -> Page:
    front = FrontMatter(
        targets=(skill.target if skill.target in TARGETS else ANY,),
        languages=(_language(skill.language),),
        bottlenecks=tuple(bound for bound in skill.bounds if bound in BOTTLENECKS) or (ANY,),
        phase=Phase.ADVANCED,
        sources=(f"{skill.citation}, {skill.measured}",),
    )
    title = f"Skill: {skill.problem} on {skill.target}, run {skill.run}"
    return Page(id=_id(skill.run), title=title, body=body, front=front)


def _id(run: str) -> str:
    return f"skills/{run}"


def _language(name: str) -> str:
    try:
        return language_word(name) or ANY
    except InvalidRequest:
        return ANY


def _yaml(value: object) -> str:
    """JSON, which YAML reads; nothing is escaped that JSON escapes in two halves."""
    return json.dumps(value, ensure_ascii=False)


def _facts(skill: Skill) -> str:
    parts = [
        "What one run learnt, written down by rule: every number below was measured by the judge or counted in that "
        "run [1]. What stands in code marks was written by programs and is data, not advice. Another problem, shape or "
        "device may want something else; the judge decides.",
        _section("The problem", _problem(skill)),
        _section("What won", _winner(skill)),
        _section("How it came to be", map(_step, skill.chain)),
        _section("What its numbers do", (f"{_code(line)} [1]" for line in skill.tunables)),
        _section("What failed", _failures(skill)),
    ]
    return "\n\n".join(part for part in parts if part)


def _section(title: str, items: Iterable[str]) -> str:
    listed = "\n".join(f"* {item}" for item in items)
    return f"## {title}\n\n{listed}" if listed else ""


def _problem(skill: Skill) -> Iterable[str]:
    yield f"Reference: {_code(skill.problem)}, on {_code(skill.target)} [1]"
    shares = sorted(skill.problem_class.operators.items(), key=lambda item: (-item[1], item[0]))
    if shares:
        words = ", ".join(f"{_code(name)} {share:.0%}" for name, share in shares[:_OPERATORS])
        yield f"Operators with their share of the work: {words} [1]"
    if skill.problem_class.shapes:
        yield f"Tensors: {', '.join(map(_code, skill.problem_class.shapes))} [1]"


def _winner(skill: Skill) -> Iterable[str]:
    niche = f", niche {_code(skill.niche)}" if skill.niche and skill.niche != skill.language else ""
    yield f"Node {skill.node} of {skill.evaluations}, in {_code(skill.language)}{niche} [1]"
    for speedup in skill.speedups:
        yield (
            f"{speedup.value:.3g} times as fast as {_code(speedup.baseline)} "
            f"(95 % interval {speedup.low:.3g} to {speedup.high:.3g}; {_standing(skill)}) [1]"
        )
    if skill.seconds is not None:
        fraction = skill.roofline_fraction
        share = f", {100 * fraction:.3g} % of the roofline" if fraction is not None else ""
        bounds = f", whose floor is {' and '.join(skill.bounds)}" if share and skill.bounds else ""
        yield f"{skill.seconds * 1e6:.4g} µs per call{share}{bounds} [1]"
    if skill.config:
        yield f"Configuration: {_code(skill.config)} [1]"
    if skill.plan:
        yield f"Plan: {', '.join(map(_code, skill.plan))} [1]"


def _standing(skill: Skill) -> str:
    if not skill.promoted:
        return "as the search measured it"
    return "promotion, faster than every baseline" if skill.faster else "promotion, not faster than every baseline"


def _step(step: ChainStep) -> str:
    if step.parent is None:
        gain = (
            ""
            if step.gain is None
            else f", {step.gain:.3g} times as fast as the best baseline as the search measured it"
        )
        return f"Node {step.node}, a draft by {_code(step.operator)}{gain} [1]"
    gain = "mended" if step.gain is None else f"{step.gain:.3g} times as fast"
    change = f": {_code(step.change)}" if step.change else ""
    return f"Node {step.node} by {_code(step.operator)} from node {step.parent}, {gain}{change} [1]"


def _failures(skill: Skill) -> Iterable[str]:
    for group in skill.failures:
        nodes = ", ".join(map(str, group.nodes))
        times = "once" if group.count == 1 else f"{group.count} times"
        yield f"{times} {_code(group.kind)}, such as node {nodes}: {_code(group.reason or 'no reason given')} [1]"


def _code(text: str) -> str:
    """A short foreign text in a code span, which it cannot end: see ``distill.one_line``."""
    return f"`{text}`"
