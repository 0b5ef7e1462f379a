"""Languages in which candidates are written; one module each, found through ``LANGUAGES``."""

from kernelevolve.languages.language import Availability, Language
from kernelevolve.registry import Registry

LANGUAGES: Registry[Language] = Registry(
    "language", "kernelevolve.languages", "LANGUAGE", frozenset({"language", "build_cache"})
)

__all__ = ["LANGUAGES", "Availability", "Language"]
