"""Records of a numeric search: what was timed, what is best, and what is not to be timed again."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TypeAlias

from kernelevolve.candidates import Config
from kernelevolve.candidates.space import Value

Key: TypeAlias = tuple[tuple[str, Value], ...]


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
