"""Languages in which candidates are written; one module each, found through ``LANGUAGES``."""

from kernelevolve.languages.language import Availability, Language
from kernelevolve.registry import Registry

LANGUAGES: Registry[Language] = Registry(
    "language", "kernelevolve.languages", "LANGUAGE",
    frozenset({"language", "build_cache", "prototypes", "driver", "include"}),
)  # fmt: skip


def detect(source: str) -> str:
    """The name of the language that a candidate source is written in; plain PyTorch if it has no kernel."""
    for name in LANGUAGES:
        if LANGUAGES.get(name).matches(source):
            return name
    return "pytorch"


__all__ = ["LANGUAGES", "Availability", "Language", "detect"]
