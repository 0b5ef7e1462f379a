"""Replay: a numeric space that was timed completely once, so that tuners can be compared without a device.

A recorded space is a JSON file: the space, the seconds of every allowed configuration in the order of
``TunableSpace.points()`` (null where it failed), and where the times come from.
"""

from __future__ import annotations

import json
import math
import random
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kernelevolve.candidates import Config, TunableSpace
from kernelevolve.tuning import TUNERS
from kernelevolve.tuning.records import key_of


@dataclass(frozen=True, slots=True)
class RecordedSpace:
    """Every configuration of one program with its time (measured once, when it was recorded)."""

    name: str
    origin: str
    """Program, machine and method, in words."""
    space: TunableSpace
    seconds: tuple[float, ...]
    """In the order of ``space.points()``; infinite for a failure."""

    def __post_init__(self) -> None:
        points = sum(1 for _ in self.space.points())
        if points != len(self.seconds):
            raise ValueError(f"{self.name}: {len(self.seconds)} times for {points} configurations")
        if not any(map(math.isfinite, self.seconds)):
            raise ValueError(f"{self.name}: nothing in it works")

    @classmethod
    def load(cls, path: Path) -> RecordedSpace:
        """Read a file that ``save`` wrote."""
        document = json.loads(path.read_text())
        seconds = tuple(math.inf if value is None else float(value) for value in document["seconds"])
        space = TunableSpace.model_validate(document["space"])
        return cls(document["name"], document["origin"], space, seconds)

    def save(self, path: Path) -> None:
        """Write it as JSON, times in four significant digits."""
        document: dict[str, Any] = {
            "name": self.name,
            "origin": self.origin,
            "space": self.space.model_dump(mode="json"),
            "seconds": [float(f"{value:.4g}") if math.isfinite(value) else None for value in self.seconds],
        }
        path.write_text(json.dumps(document) + "\n")

    @property
    def optimum(self) -> float:
        """Seconds of the best configuration."""
        return min(self.seconds)

    def table(self) -> list[tuple[Config, float]]:
        """Every configuration with its seconds."""
        return list(zip(self.space.points(), self.seconds, strict=True))

    def best_share(self, share: float) -> list[Config]:
        """The configurations of the best ``share`` of those that work, fastest first."""
        working = sorted((row for row in self.table() if math.isfinite(row[1])), key=lambda row: row[1])
        return [config for config, _ in working[: max(1, round(share * len(working)))]]


def replay(
    recorded: RecordedSpace, tuner: str, timings: int, rng: random.Random, starts: Sequence[Config] = ()
) -> list[float]:
    """Optimum over best time found after 1, 2, … ``timings`` distinct configurations; 1 is the optimum.

    A failure counts as a timing. A tuner that ends early keeps what it has. Raises ValueError if the tuner asks for
    something that is not allowed, or twice for the same.
    """
    seconds = {key_of(config): value for config, value in recorded.table()}
    method = TUNERS.get(tuner)(recorded.space, list(starts), rng)
    curve: list[float] = []
    best = math.inf
    while len(curve) < timings and (config := method.ask()) is not None:
        key = key_of(config)
        if key not in seconds:
            raise ValueError(f"{tuner} asked for {config}, which is not allowed or was asked before")
        value = seconds.pop(key)
        best = min(best, value)
        method.tell(config, value)
        curve.append(recorded.optimum / best)
    return curve + [curve[-1] if curve else 0.0] * (timings - len(curve))
