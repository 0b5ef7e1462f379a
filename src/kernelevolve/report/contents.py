"""Contents: everything that the report, the summary and ``show`` say of a run, read from the store once."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property

from kernelevolve.candidates import Candidate
from kernelevolve.candidates.structure import materialise
from kernelevolve.errors import InvalidCandidate
from kernelevolve.judge.verdict import Effort, Stage, Verdict, VerdictKind
from kernelevolve.run import Run, RunSummary
from kernelevolve.search.control import BestOfN, best_of_n
from kernelevolve.search.graph import SearchGraph
from kernelevolve.search.node import Node
from kernelevolve.store import Timing


@dataclass(frozen=True, slots=True)
class NodeEntry:
    """One node of the search graph with what the judge said of it."""

    node: Node
    candidate: Candidate
    verdict: Verdict
    """The one with the most authority: the promotion where there was one, else the latest screen."""
    trials: tuple[Timing, ...]
    elapsed: float
    """Seconds of the run's own clock at which it was inserted."""

    @property
    def ratio(self) -> float | None:
        """The screen's speed-up over the best baseline, which the search steers by; None if it is not correct."""
        return math.exp(self.node.fitness) if math.isfinite(self.node.fitness) else None

    @property
    def promoted(self) -> bool:
        """True if the node was put to the strict test."""
        return self.verdict.effort is Effort.PROMOTION

    @property
    def text(self) -> str:
        """The source as it ran: with its configuration written into it."""
        try:
            return materialise(self.candidate)
        except InvalidCandidate:
            return self.candidate.source


@dataclass(frozen=True, slots=True)
class Failure:
    """Verdicts that say the same, apart from the numbers in them."""

    kind: VerdictKind
    stage: Stage
    reason: str
    """As the judge worded it the first time."""
    nodes: tuple[int, ...]


@dataclass(frozen=True)
class Contents:
    """A run as it is told; a snapshot, also of a run that is still going on."""

    summary: RunSummary
    policy: str
    source: str
    """The reference."""
    entries: tuple[NodeEntry, ...]
    best: NodeEntry | None

    @cached_property
    def by_id(self) -> dict[int, NodeEntry]:
        """Entries by node id."""
        return {entry.node.id: entry for entry in self.entries}

    @cached_property
    def lineage(self) -> tuple[NodeEntry, ...]:
        """From a draft to the best node, along first parents."""
        path: list[NodeEntry] = []
        entry = self.best
        while entry is not None:
            path.append(entry)
            entry = self.by_id.get(entry.node.parents[0]) if entry.node.parents else None
        return tuple(reversed(path))

    @cached_property
    def records(self) -> tuple[NodeEntry, ...]:
        """The nodes that were the best so far when they were inserted, as the search measured them."""
        found: list[NodeEntry] = []
        for entry in self.entries:
            if entry.node.correct and (not found or entry.node.fitness > found[-1].node.fitness):
                found.append(entry)
        return tuple(found)

    @cached_property
    def control(self) -> BestOfN:
        """What independent drafts alone would have reached."""
        graph = SearchGraph()
        for entry in self.entries:
            graph.insert(entry.node)
        return best_of_n(graph)

    @cached_property
    def best_trials(self) -> tuple[Timing, ...]:
        """All timings of the best program's configurations, over every node that shares its source."""
        if self.best is None:
            return ()
        digest = self.best.candidate.source_digest
        return tuple(t for e in self.entries if e.candidate.source_digest == digest for t in e.trials)

    @cached_property
    def failures(self) -> tuple[Failure, ...]:
        """What went wrong, most frequent first; also a strict test that refuted a node which the screen had passed."""
        return group_failures(self.entries)


def collect(run: Run) -> Contents:
    """Read a run from its store."""
    record, best = run.record, run.best
    entries = tuple(_entry(run, stored.node, stored.elapsed) for stored in run.history())
    chosen = next((e for e in entries if best is not None and e.node.id == best.node.id), None)
    return Contents(
        summary=run.summary(),
        policy=str(record.settings.get("policy", "")),
        source=record.problem.source,
        entries=entries,
        best=chosen,
    )


def group_failures(entries: Iterable[NodeEntry]) -> tuple[Failure, ...]:
    """Failed entries by verdict, stage and reason, where numbers in the reason do not tell reasons apart."""
    groups: dict[tuple[VerdictKind, Stage, str], list[NodeEntry]] = {}
    for entry in entries:
        if not entry.verdict.correct:
            key = (entry.verdict.kind, entry.verdict.stage, re.sub(r"\d[\d.,e+-]*", "#", entry.verdict.reason))
            groups.setdefault(key, []).append(entry)
    failures = [
        Failure(kind, stage, members[0].verdict.reason, tuple(e.node.id for e in members))
        for (kind, stage, _), members in groups.items()
    ]
    return tuple(sorted(failures, key=lambda f: -len(f.nodes)))


def _entry(run: Run, node: Node, elapsed: float) -> NodeEntry:
    verdicts = run.verdicts(node.id)
    trials = run.trials(node.id) if node.correct else []
    return NodeEntry(node, run.candidate(node.id), _weightiest(verdicts), tuple(trials), elapsed)


def _weightiest(verdicts: Sequence[Verdict]) -> Verdict:
    return next((v for v in reversed(verdicts) if v.effort is Effort.PROMOTION), verdicts[-1])
