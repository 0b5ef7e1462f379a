"""Briefing: from what a run knows to the context of a prompt, at any instant of the run."""

from __future__ import annotations

from collections.abc import Sequence

from kernelevolve.errors import InvalidCandidate
from kernelevolve.judge.diagnosis import diagnose
from kernelevolve.languages import LANGUAGES
from kernelevolve.profilers import Diagnosis
from kernelevolve.prompting import BudgetLeft, Found, Memory, PromptContext, Retriever, Step
from kernelevolve.search.graph import SearchGraph
from kernelevolve.skills.recall import is_injected, recalled_skills
from kernelevolve.store import RunRecord, Store
from kernelevolve.store.steps import read_step
from kernelevolve.targets import Target

_ANCESTORS, _SIBLINGS, _PAGES = 40, 32, 4
_RUT = 4
"""Children of a node of which none is faster: from then on every second prompt starts clean."""


class Briefing:
    """What writers are told in one run. ``graph`` may end earlier than the stored run: then it is told as of then."""

    def __init__(self, store: Store, record: RunRecord, target: Target, graph: SearchGraph) -> None:
        self._store, self._record, self._target, self._graph = store, record, target, graph

    def context(
        self,
        parents: Sequence[int],
        budget: BudgetLeft,
        *,
        memory: Memory | None = None,
        retriever: Retriever | None = None,
        diagnosis: Diagnosis | None = None,
    ) -> PromptContext:
        """The context of a program to be made from these nodes; without ``memory`` the one that suits them."""
        best, ceilings = self._graph.best, self._target.ceilings()
        shown = tuple(map(self.step, parents))
        siblings = self._graph.children(parents[0]) if parents else self._graph.roots
        if shown and shown[0].verdict.correct and diagnosis is None:
            diagnosis = diagnose(shown[0].verdict, launch_seconds=ceilings.launch_seconds)
        return PromptContext(
            problem=self._record.problem,
            target=self._target.name,
            facts=self._target.facts(),
            ceilings=ceilings,
            languages=self.languages(),
            baselines=self._record.baselines,
            budget=budget,
            parents=shown,
            ancestors=tuple(map(self.step, self._ancestors(parents))),
            siblings=tuple(map(self.step, siblings[-_SIBLINGS:])),
            best=None if best is None else self.step(best.id),
            memory=memory or self.memory(parents),
            diagnosis=diagnosis,
            found=self._pages(retriever, shown, diagnosis),
            skills=self._skills(),
            names={"device": self._record.device},
        )

    def step(self, number: int) -> Step:
        """A node with everything that prompts show of one."""
        return read_step(self._store, self._record.id, self._graph[number])

    def memory(self, parents: Sequence[int]) -> Memory:
        """What suits a node: nothing but itself now and then where many children of it came to nothing, its history
        alone while it has none or is to be mended, both otherwise; for a draft the other drafts."""
        if not parents:
            return Memory.SIBLINGS
        parent, children = self._graph[parents[0]], self._graph.children(parents[0])
        if not children or not parent.correct:
            return Memory.BOTH if children else Memory.INHERIT
        stuck = len(children) >= _RUT and all(self._graph[child].fitness <= parent.fitness for child in children)
        return Memory.CLEAN if stuck and len(children) % 2 else Memory.BOTH

    def languages(self) -> dict[str, str]:
        """Languages that this machine can compile for the target, those first that can say something of time."""
        known = {name: LANGUAGES.get(name) for name in LANGUAGES}
        usable = {
            name: language.limits.get(self._target.name, "")
            for name, language in known.items()
            if self._target.name in language.targets and language.availability().ok
        }
        return dict(sorted(usable.items(), key=lambda item: (bool(item[1]), item[0] == "pytorch")))

    def _ancestors(self, parents: Sequence[int]) -> list[int]:
        found: list[int] = []
        at = self._graph[parents[0]].parents if parents else ()
        while at and len(found) < _ANCESTORS:
            found.append(at[0])
            at = self._graph[at[0]].parents
        return found

    def _skills(self) -> Sequence[Found]:
        """What earlier runs learnt, as this run saw it when it began; a share of the nodes is told nothing of it."""
        settings = self._record.settings
        if not is_injected(settings, len(self._graph)):
            return ()
        return recalled_skills(self._store.blobs, settings)

    def _pages(
        self, retriever: Retriever | None, shown: Sequence[Step], diagnosis: Diagnosis | None
    ) -> Sequence[Found] | None:
        if retriever is None:
            return None
        parent = shown[0] if shown else None
        question = self._record.problem.name.replace("_", " ")
        if parent is not None:
            question += f" {diagnosis.summary if diagnosis is not None else parent.verdict.reason}"
        language = parent.candidate.language if parent is not None else next(iter(self.languages()), "")
        return retriever.retrieve(
            question,
            target=self._target.name,
            language=None if language in ("", "pytorch") else language,
            bottleneck=diagnosis.bottleneck.value if diagnosis is not None else None,
            depth=self._graph[parent.node_id].depth if parent is not None else 0,
            limit=_PAGES,
        )


def checked_parents(graph: SearchGraph, parents: Sequence[int]) -> tuple[int, ...]:
    """The parents that somebody named, if they can be parents. Raises InvalidCandidate."""
    if len(parents) > 2:
        raise InvalidCandidate(f"{len(parents)} parents are too many", fix="name one to change or two to combine")
    for number in parents:
        if not 0 <= number < len(graph):
            known = f"give a number from 0 to {len(graph) - 1}" if len(graph) else "leave it out, for there are none"
            raise InvalidCandidate(f"there is no node {number}", fix=known)
    return tuple(parents)
