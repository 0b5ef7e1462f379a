"""Emitters: one language each, found through ``EMITTERS``."""

from kernelevolve.operators.synthesis.emit.emitter import Emitted, Emitter, Facts, Traits
from kernelevolve.registry import Registry

EMITTERS: Registry[Emitter] = Registry(
    "emitter", "kernelevolve.operators.synthesis.emit", "EMITTER", frozenset({"emitter", "shell"})
)

__all__ = ["EMITTERS", "Emitted", "Emitter", "Facts", "Traits"]
