"""Records of a numeric search: what was timed, what is best, and what has not been timed yet."""

from __future__ import annotations

import math
import random
from collections.abc import Iterable, Mapping
from typing import TypeAlias

from kernelevolve.candidates import Config, TunableSpace
from kernelevolve.candidates.space import Value

Key: TypeAlias = tuple[tuple[str, Value], ...]

_DRAWS = 100


def key_of(config: Mapping[str, Value]) -> Key:
    """A hashable name of a configuration."""
    return tuple(sorted(config.items()))


class Records:
    """Times by configuration."""

    def __init__(self) -> None:
        self.seconds: dict[Key, float] = {}
        self.configs: list[Config] = []
        self.best: Config | None = None
        self.best_seconds = math.inf

    @classmethod
    def of(cls, space: TunableSpace, timings: Iterable[tuple[Config, float | None]]) -> Records:
        """Stored timings of a program, None for one that failed; what was timed in another space is left out."""
        records = cls()
        for config, seconds in timings:
            if set(config) == set(space.tunables):
                records.add(config, math.inf if seconds is None else seconds)
        return records

    def add(self, config: Config, seconds: float) -> None:
        """Keep a time; of two for one configuration the better."""
        key = key_of(config)
        if key not in self.seconds:
            self.configs.append(config)
        self.seconds[key] = min(seconds, self.seconds.get(key, math.inf))
        if seconds < self.best_seconds:
            self.best, self.best_seconds = config, seconds

    def __contains__(self, config: Config) -> bool:
        return key_of(config) in self.seconds

    def __len__(self) -> int:
        return len(self.seconds)

    def draw_new(self, space: TunableSpace, rng: random.Random) -> Config | None:
        """A random configuration that was not timed; None if there is none (or none was found in a vast space)."""
        for _ in range(_DRAWS):
            config = space.random(rng)
            if config not in self:
                return config
        # Nearly everything was timed, or the space is so tight that draws repeat themselves.
        return next((config for config in space.points() if config not in self), None) if space.listable else None
