"""Node: a judged candidate in the search graph, without its text."""

from __future__ import annotations

from dataclasses import dataclass

from kernelevolve.judge.verdict import VerdictKind


@dataclass(frozen=True, slots=True)
class Node:
    """One vertex. Light on purpose: sources, verdicts and measurements live in the store under ``candidate_id``."""

    id: int
    """0, 1, 2 … in the order of insertion."""
    candidate_id: str
    parents: tuple[int, ...]
    operator: str
    kind: VerdictKind
    fitness: float
    """log(best baseline seconds / candidate seconds); 0 is the baseline, -inf if not correct."""
    structure: str
    """``structure_key`` of the source, equal for all configurations of one program; an earlier program's key if both
    built into the same artifact."""
    depth: int
    """Edges to the nearest root; a draft has 0."""
    niche: str = ""
    """Behaviour descriptor for map_elites, e.g. 'fused|tiled|library-product'."""

    @property
    def correct(self) -> bool:
        """True if the judge said so."""
        return self.kind is VerdictKind.CORRECT
