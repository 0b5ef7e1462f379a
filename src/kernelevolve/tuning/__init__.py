"""Numeric tuning inside a candidate; one module a method, found through ``TUNERS``."""

from kernelevolve.registry import Registry
from kernelevolve.tuning.tuner import Tuner

TUNERS: Registry[type[Tuner]] = Registry(
    "tuner", "kernelevolve.tuning", "TUNER", frozenset({"tuner", "records", "nested", "replay"})
)

__all__ = ["TUNERS", "Tuner"]
