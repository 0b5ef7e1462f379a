"""The skills of a workspace: written at the end of a run, found by how alike two problems are."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from kernelevolve.errors import KernelEvolveError
from kernelevolve.knowledge.page import InvalidPage
from kernelevolve.problems import Problem
from kernelevolve.skills.distill import distill
from kernelevolve.skills.page import SkillPage, Writer, page_of, parse_skill
from kernelevolve.skills.records import (
    DEFAULT_INJECTION,
    ProblemClass,
    SkillReference,
    SkillSettings,
    TransferReference,
)
from kernelevolve.skills.similarity import problem_class, similarity
from kernelevolve.store import Store
from kernelevolve.targets import Target

DIRECTORY = "skills"
SHOWN_FROM = 0.3
"""Similarity from which on a skill may be shown: about a shared product among otherwise different operators."""
TRANSFERRED_FROM = 0.5
"""Similarity from which on a past kernel is proposed: nearly the same operators, in whatever shapes."""
_SKILLS, _TRANSFERS = 3, 4


@dataclass(frozen=True, slots=True)
class Loaded:
    """All skills of a workspace, by run, and a sentence on every page that cannot be read."""

    pages: tuple[SkillPage, ...]
    unread: tuple[str, ...]


def load_skills(workspace: Path) -> Loaded:
    """The skills that the runs of a workspace wrote; none if there is no such directory."""
    pages: list[SkillPage] = []
    unread: list[str] = []
    for path in sorted((workspace / DIRECTORY).glob("*.md")):
        try:
            pages.append(parse_skill(path.read_text(encoding="utf-8"), path))
        except InvalidPage as error:
            unread.append(error.sentence)
        except (OSError, UnicodeDecodeError):
            unread.append(f"{path.name} cannot be read as text")
    return Loaded(tuple(pages), tuple(unread))


def similar(
    pages: Sequence[SkillPage], wanted: ProblemClass, *, at_least: float = SHOWN_FROM
) -> list[tuple[float, SkillPage]]:
    """The skills of similar problems with their similarity, the most similar first, of equals the newest."""
    found = [(similarity(wanted, page.skill.problem_class), page) for page in pages]
    newest = sorted((pair for pair in found if pair[0] >= at_least), key=lambda pair: pair[1].skill.run, reverse=True)
    return sorted(newest, key=lambda pair: -pair[0])


def settings_for(
    store: Store, problem: Problem, target: Target, *, injection: float = DEFAULT_INJECTION, transfers: bool = True
) -> SkillSettings:
    """What a new run may see of the runs that were before it. Nothing is captured while there are no skills.

    Pages are kept as blobs and kernels named by theirs, so that what later runs write changes nothing for this one.
    """
    pages = load_skills(store.workspace).pages if injection > 0 or transfers else ()
    if not pages:
        return SkillSettings(injection=injection)
    wanted = problem_class(problem, target)
    found = similar(pages, wanted)
    return SkillSettings(
        injection=injection,
        problem_class=wanted,
        skills=tuple(
            SkillReference(run=page.skill.run, digest=store.blobs.put(page.text.encode()), similarity=alike)
            for alike, page in (found[:_SKILLS] if injection > 0 else ())
        ),
        transfers=_transfers(store, found, target) if transfers else (),
    )


def _transfers(store: Store, found: Sequence[tuple[float, SkillPage]], target: Target) -> tuple[TransferReference, ...]:
    """The promoted kernels of similar runs on this target, each source once; the store says what was promoted."""
    chosen: dict[str, TransferReference] = {}
    for alike, page in found:
        skill = page.skill
        if alike < TRANSFERRED_FROM or skill.target != target.name or len(chosen) == _TRANSFERS:
            continue
        try:
            promotion = store.promotions(skill.run).get(skill.node)
            if promotion is None or not promotion.correct:
                continue
            candidate = store.candidate(skill.run, skill.node)
        except KernelEvolveError:  # the page was copied here without its run
            continue
        digest = store.blobs.put(candidate.source.encode())
        reference = TransferReference(
            run=skill.run, node=skill.node, digest=digest, language=candidate.language, config=candidate.config,
            similarity=alike,
        )  # fmt: skip
        chosen.setdefault(digest, reference)
    return tuple(chosen.values())


def write_skill(store: Store, run: str, target: Target, writer: Writer | None = None) -> Path | None:
    """Distill a stored run into its page; None if it has no correct kernel.

    The class of the problem is the one that is stored with the run, or with an earlier version of the page; only if
    there is neither, the reference is captured.
    """
    record, path = store.run(run), store.workspace / DIRECTORY / f"{run}.md"
    known = SkillSettings.model_validate(record.settings).problem_class or _written(path)
    if not any(stored.node.correct for stored in store.nodes(run)):
        return None
    skill = distill(store, run, known or problem_class(record.problem, target))
    if skill is None:
        return None
    path.parent.mkdir(parents=True, exist_ok=True)
    # Written aside and renamed: another run may be reading the directory.
    descriptor, temporary = tempfile.mkstemp(dir=path.parent, prefix=".incoming-")
    with os.fdopen(descriptor, "w", encoding="utf-8") as file:
        file.write(page_of(skill, writer).text)
    Path(temporary).replace(path)
    return path


def _written(path: Path) -> ProblemClass | None:
    try:
        return parse_skill(path.read_text(encoding="utf-8"), path).skill.problem_class
    except (InvalidPage, OSError, UnicodeDecodeError):
        return None
