"""Distill: from a stored run to a skill, by rule. Whatever a candidate wrote becomes a short printable line."""

from __future__ import annotations

import difflib
import math
import re
from collections.abc import Iterator, Mapping
from typing import Any

from kernelevolve.candidates import Candidate
from kernelevolve.candidates.structure import read_choices
from kernelevolve.prompting.digest import tuning_digest
from kernelevolve.prompting.trimming import visible
from kernelevolve.search.graph import SearchGraph
from kernelevolve.search.node import Node
from kernelevolve.search.ranking import choose_best
from kernelevolve.skills.records import BaselineSpeedup, ChainStep, FailureGroup, ProblemClass, Skill
from kernelevolve.store import Store
from kernelevolve.store.steps import read_step

_LONGEST_LINE = 160
_PLAN, _CHAIN, _FAILURES, _TUNABLES, _EXAMPLES, _DIFFERENCES = 12, 12, 6, 8, 4, 3
_NUMBER = re.compile(r"\d+(?:\.\d+)?(?:e[+-]?\d+)?", re.IGNORECASE)


def distill(store: Store, run: str, problem_class: ProblemClass) -> Skill | None:
    """What a stored run learnt; None if nothing in it is correct.

    Numbers are those of the best kernel's promotion, or those of the search where there was none.
    """
    record, promotions, graph = store.run(run), store.promotions(run), SearchGraph()
    for stored in store.nodes(run):
        graph.insert(stored.node)
    best = choose_best(graph.nodes(), promotions)
    if best is None:
        return None
    candidate = store.candidate(run, best.id)
    verdict = promotions.get(best.id) or store.verdicts(run, best.id)[-1]
    return Skill(
        run=run,
        problem=one_line(record.problem.name),
        problem_class=problem_class,
        target=record.target,
        device=one_line(record.device),
        measured=record.created.date().isoformat(),
        evaluations=len(graph),
        node=best.id,
        promoted=best.id in promotions,
        faster=verdict.wins,
        language=candidate.language,
        niche=one_line(best.niche),
        config=one_line(", ".join(f"{name}={value}" for name, value in candidate.config.items())),
        plan=tuple(f"{key} = {value}" for key, value in sorted(_plan(candidate).items()))[:_PLAN],
        speedups=tuple(
            BaselineSpeedup(baseline=name, value=s.value, low=s.low, high=s.high)
            for name, s in verdict.speedups.items()
        ),
        seconds=verdict.seconds,
        roofline_fraction=verdict.roofline_fraction,
        bounds=tuple(sorted({roofline.bound for roofline in verdict.rooflines})),
        chain=tuple(_chain(store, run, graph, best)),
        failures=_failures(store, run, graph),
        tunables=_tunables(store, run, graph, best),
    )


def one_line(text: str) -> str:
    """A foreign text as one short line: no character in it steers, hides, or ends a code span."""
    line = visible(" ".join(text.split())).replace("`", "'").replace("](", "] (")
    return line if len(line) <= _LONGEST_LINE else line[: _LONGEST_LINE - 1] + "…"


def _chain(store: Store, run: str, graph: SearchGraph, best: Node) -> Iterator[ChainStep]:
    """The line of fittest parents, the draft first; of a long line its end, which is where the best kernel was made."""
    line = [best]
    while line[-1].parents and len(line) < _CHAIN:
        line.append(max((graph[number] for number in line[-1].parents), key=lambda node: node.fitness))
    for node in reversed(line):
        parent = max((graph[n] for n in node.parents), key=lambda n: n.fitness) if node.parents else None
        before = 0.0 if parent is None else parent.fitness
        known = math.isfinite(node.fitness) and math.isfinite(before)
        change = "" if parent is None else _change(store.candidate(run, parent.id), store.candidate(run, node.id))
        yield ChainStep(
            node=node.id, operator=one_line(node.operator), gain=math.exp(node.fitness - before) if known else None,
            parent=None if parent is None else parent.id, change=change,
        )  # fmt: skip


def _change(before: Candidate, after: Candidate) -> str:
    """What is different, in the most telling terms that there are: the plan, the language, the configuration, lines."""
    if before.source == after.source:
        moved = _differences(before.config, after.config)
        return one_line(f"numbers only: {moved}") if moved else "nothing"
    plans = _plan(before), _plan(after)
    if all(plans) and (moved := _differences(*plans)):
        return one_line(moved)
    if before.language != after.language:
        return one_line(f"{before.language} -> {after.language}")
    changes = difflib.unified_diff(before.source.splitlines(), after.source.splitlines(), lineterm="", n=0)
    added = removed = 0
    for line in changes:
        added += line.startswith("+") and not line.startswith("+++")
        removed += line.startswith("-") and not line.startswith("---")
    return f"{added} lines added, {removed} removed"


def _differences(before: Mapping[str, Any], after: Mapping[str, Any]) -> str:
    moved = [key for key in sorted({*before, *after}) if before.get(key) != after.get(key)]
    said = [f"{key}: {before.get(key, 'absent')} -> {after.get(key, 'absent')}" for key in moved[:_DIFFERENCES]]
    rest = len(moved) - len(said)
    return "; ".join([*said, f"{rest} more"] if rest else said)


def _plan(candidate: Candidate) -> dict[str, str]:
    """The structural decisions, one level deep: decision -> answer, as short lines."""
    return {one_line(name): one_line(answer) for name, answer in read_choices(candidate.source).items()}


def _failures(store: Store, run: str, graph: SearchGraph) -> tuple[FailureGroup, ...]:
    """What failed, grouped by verdict and by the judge's reason without its numbers."""
    groups: dict[tuple[str, str], list[int]] = {}
    reasons: dict[tuple[str, str], str] = {}
    for node in graph.nodes():
        if not node.correct:
            reason = one_line(store.verdicts(run, node.id)[-1].reason)
            key = (node.kind.value, _NUMBER.sub("#", reason))
            groups.setdefault(key, []).append(node.id)
            reasons.setdefault(key, reason)
    ranked = sorted(groups, key=lambda key: (-len(groups[key]), groups[key][0]))
    return tuple(
        FailureGroup(kind=key[0], reason=reasons[key], count=len(groups[key]), nodes=tuple(groups[key][:_EXAMPLES]))
        for key in ranked[:_FAILURES]
    )


def _tunables(store: Store, run: str, graph: SearchGraph, best: Node) -> tuple[str, ...]:
    """What the numeric search found; better numbers are a node of their own, whose trials are its parent's."""
    for number in (best.id, *best.parents):
        node = graph[number]
        if node.structure == best.structure:
            digest = tuning_digest(read_step(store, run, node))
            if digest is not None and digest.lines:
                return tuple(map(one_line, digest.lines[:_TUNABLES]))
    return ()
