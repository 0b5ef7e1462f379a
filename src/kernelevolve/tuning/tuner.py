"""Tuner: numeric search inside one program. It asks for configurations to be timed and is told their times."""

from __future__ import annotations

import random
from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Protocol, TypeAlias

from kernelevolve.candidates import Config, TunableSpace
from kernelevolve.tuning.records import Records, key_of

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


class SeedsFirst(ABC):
    """A tuner that has its seeds timed, then what ``_next`` makes of the records."""

    def __init__(self, space: TunableSpace, seeds: Sequence[Config], rng: random.Random) -> None:
        self._space = space
        self._rng = rng
        self._records = Records()
        self._seeds = list({key_of(seed): seed for seed in seeds}.values())

    def ask(self) -> Config | None:
        """The next seed that was not timed; when there is none, the method's own choice."""
        for seed in self._seeds:
            if seed not in self._records:
                return seed
        return self._next()

    def tell(self, config: Config, seconds: float) -> None:
        """Keep it; the method looks at all records."""
        self._records.add(config, seconds)

    @abstractmethod
    def _next(self) -> Config | None:
        """A configuration that was not timed; None if there is nothing left."""
