"""Languages in which candidates are written; one module each, found through ``LANGUAGES``."""

from kernelevolve.candidates import Candidate
from kernelevolve.candidates.structure import split_config
from kernelevolve.languages.language import Availability, Language
from kernelevolve.registry import Registry

LANGUAGES: Registry[Language] = Registry(
    "language", "kernelevolve.languages", "LANGUAGE",
    frozenset({"language", "build_cache", "prototypes", "arguments", "toolchain", "triton_autotune"}),
)  # fmt: skip


def detect(source: str) -> str:
    """The name of the language that a candidate source is written in; 'pytorch' if it has no kernel of its own.

    Raises InvalidCandidate if it is not Python.
    """
    return next((name for name in LANGUAGES if LANGUAGES.get(name).matches(source)), "pytorch")


def candidate_of(text: str) -> Candidate:
    """The candidate that a whole file is, with its ``CONFIG`` taken out of the text. Raises InvalidCandidate."""
    source, config = split_config(text)
    return Candidate(source=source, language=detect(source), config=config)


__all__ = ["LANGUAGES", "Availability", "Language", "candidate_of", "detect"]
