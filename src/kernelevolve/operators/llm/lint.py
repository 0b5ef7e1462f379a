"""Lint: what can be said of a program without running it, in sentences for its writer."""

from __future__ import annotations

from collections.abc import Collection

from kernelevolve.candidates.structure import defines_model_new, read_space
from kernelevolve.errors import InvalidCandidate
from kernelevolve.languages import candidate_of


def complaints(source: str, languages: Collection[str]) -> list[str]:
    """What is wrong with a program; empty if nothing is seen. ``languages`` are those that work here."""
    try:
        candidate = candidate_of(source)
        read_space(candidate.source)
    except InvalidCandidate as error:
        return [error.sentence]
    found: list[str] = []
    if not defines_model_new(candidate.source):
        found.append("it defines no class ModelNew; define it with the constructor and forward of Model")
    if candidate.language not in languages:
        found.append(f"it is written in {candidate.language}, which does not work here; use {', '.join(languages)}")
    return found
