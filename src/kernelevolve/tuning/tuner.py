"""Tuner: numeric search inside one program. It asks for configurations to be timed and is told their times."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Protocol, TypeAlias

from kernelevolve.candidates import Config, TunableSpace

Timing: TypeAlias = tuple[Config, float]
"""A configuration and its seconds per call; infinite if it failed."""


class Tuner(Protocol):
    """One method. The module ``tuning/<name>.py`` holds ``TUNER``, a class that makes these.

    Made with the space, the configurations worth trying first (allowed ones), and a generator. The same calls give the
    same answers. It may be told configurations that it never asked for: earlier records of the same program.
    """

    def __init__(self, space: TunableSpace, seeds: Sequence[Config], rng: random.Random) -> None: ...

    def ask(self) -> Config | None:
        """The next configuration, never one it was told; None if there is nothing left."""
        ...

    def tell(self, config: Config, seconds: float) -> None:
        """The time of a configuration; infinite if it failed."""
        ...
