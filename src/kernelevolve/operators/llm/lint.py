"""Lint: what can be said of a program without running it, in sentences for its writer."""

from __future__ import annotations

from collections.abc import Collection

from kernelevolve.candidates.structure import defines_model_new, read_space, split_config
from kernelevolve.errors import InvalidCandidate
from kernelevolve.languages import detect


def complaints(source: str, languages: Collection[str]) -> list[str]:
    """What is wrong with a program; empty if nothing is seen. ``languages`` are those that work here."""
    try:
        text, _ = split_config(source)
        found: list[str] = []
        if not defines_model_new(text):
            found.append("it defines no class ModelNew; define it with the constructor and forward of Model")
        read_space(text)
        language = detect(text)
    except InvalidCandidate as error:
        return [error.sentence]
    if language not in languages:
        found.append(f"it is written in {language}, which does not work here; use {', '.join(languages)}")
    return found
