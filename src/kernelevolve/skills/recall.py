"""Recall: what a stored run may see of earlier runs, from the references that were fixed when it was created."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from kernelevolve.candidates import Candidate
from kernelevolve.operators import PastKernel
from kernelevolve.skills.page import parse_skill
from kernelevolve.skills.records import SkillSettings, TransferReference
from kernelevolve.store.blobs import BlobStore


@dataclass(frozen=True, slots=True)
class ShownSkill:
    """A skill as a prompt shows it; implements ``prompting.Found``."""

    page_id: str
    title: str
    text: str
    citation: str
    score: float


def is_injected(settings: Mapping[str, Any], node: int) -> bool:
    """True if the prompt for the node of this number shows skills: by the run's seed and its rate, by nothing else.

    The number is the one that the node would get, for that is known of a question, and of a stored node ever after.
    """
    rate = SkillSettings.model_validate(settings).injection
    return random.Random(f"skills/{settings.get('seed', 0)}/{node}").random() < rate


def recalled_skills(blobs: BlobStore, settings: Mapping[str, Any]) -> tuple[ShownSkill, ...]:
    """The skills that a run of these settings may show, the most similar first. Raises KernelEvolveError."""
    shown = []
    for reference in SkillSettings.model_validate(settings).skills:
        found = parse_skill(blobs.get(reference.digest).decode())
        citation = f"{found.skill.citation}; similarity {reference.similarity:.2f}"
        shown.append(ShownSkill(found.page.id, found.page.title, found.page.body, citation, reference.similarity))
    return tuple(shown)


def past_kernels(blobs: BlobStore, references: Sequence[TransferReference]) -> tuple[PastKernel, ...]:
    """The kernels of earlier runs that a run may propose, the most similar first. Raises KernelEvolveError."""
    return tuple(
        PastKernel(
            reference.run, reference.node,
            Candidate(
                source=blobs.get(reference.digest).decode(), language=reference.language, config=reference.config
            ),
            reference.similarity,
        )
        for reference in references
    )  # fmt: skip
