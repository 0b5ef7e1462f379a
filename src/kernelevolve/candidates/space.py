"""Numeric freedom of a candidate: its tunables, the constraints between them, and the points that they span."""

from __future__ import annotations

import math
import random
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from itertools import islice, product
from typing import TypeAlias

from pydantic import BaseModel, ConfigDict, Field, model_validator

from kernelevolve.candidates.constraint import Constraint
from kernelevolve.candidates.tunable import BaseTunable, Bool, Choice, Int, PowerOfTwo, Tunable, Value

__all__ = ["Bool", "Choice", "Config", "Int", "PowerOfTwo", "Tunable", "TunableSpace", "Value"]

Config: TypeAlias = dict[str, Value]

_RANDOM_DRAWS = 200
_RANDOM_STEPS_PER_TUNABLE = 4
_LISTABLE = 100_000


class TunableSpace(BaseModel):
    """The tunables of a candidate, the constraints between them, and seeds worth trying first.

    A constraint is an arithmetic expression over tunable names (``"BLOCK_M * BLOCK_N <= 16384"``). It is text, so a
    space can be read from a source without running it, and it can name nothing but tunables. The default satisfies
    every constraint. A seed may leave tunables out (their default is meant) and need not be allowed (the nearest
    allowed point is meant), because a good guess that is slightly off is still a good guess.
    """

    model_config = ConfigDict(frozen=True)

    tunables: dict[str, Tunable] = Field(default_factory=dict)
    constraints: tuple[str, ...] = ()
    seeds: tuple[Config, ...] = ()

    def __init__(
        self,
        tunables: Mapping[str, BaseTunable] | None = None,
        constraints: Sequence[str] = (),
        seeds: Sequence[Mapping[str, Value]] = (),
    ) -> None:
        super().__init__(tunables=dict(tunables or {}), constraints=tuple(constraints), seeds=tuple(map(dict, seeds)))

    @model_validator(mode="after")
    def _check(self) -> TunableSpace:
        for constraint in self._predicates:
            if not constraint.holds(self.default):
                raise ValueError(f"the default {self.default} breaks the constraint {constraint.text!r}")
        for seed in self.seeds:
            unknown = set(seed) - set(self.tunables)
            if unknown:
                raise ValueError(f"a seed names {sorted(unknown)}, which are not tunables")
        return self

    @cached_property
    def _predicates(self) -> tuple[Constraint, ...]:
        return tuple(Constraint(text, self.tunables) for text in self.constraints)

    @property
    def default(self) -> Config:
        """The starting value of every tunable."""
        return {name: t.start() for name, t in self.tunables.items()}

    def starts(self) -> list[Config]:
        """The default, then every seed made complete and allowed; no point twice."""
        found = [self.default]
        for seed in self.seeds:
            point = self.project(seed)
            if point not in found:
                found.append(point)
        return found

    def allows(self, config: Mapping[str, Value]) -> bool:
        """True if the configuration names every tunable, with allowed values that satisfy every constraint."""
        return (
            config.keys() == self.tunables.keys()
            and all(t.contains(config[name]) for name, t in self.tunables.items())
            and all(constraint.holds(config) for constraint in self._predicates)
        )

    def size(self) -> int:
        """Number of points before constraints."""
        return math.prod(len(t.values()) for t in self.tunables.values())

    @property
    def listable(self) -> bool:
        """True if ``points`` can be gone through in less than about a second."""
        return self.size() <= _LISTABLE

    def points(self) -> Iterator[Config]:
        """Every allowed configuration, in order."""
        names = list(self.tunables)
        for values in product(*(self.tunables[n].values() for n in names)):
            config = dict(zip(names, values, strict=True))
            if all(constraint.holds(config) for constraint in self._predicates):
                yield config

    def at_most(self, count: int) -> bool:
        """True if no more than ``count`` configurations are allowed (False for a space too large to be listed)."""
        if self.size() <= count:
            return True
        return self.listable and len(list(islice(self.points(), count + 1))) <= count

    def random(self, rng: random.Random) -> Config:
        """A uniformly drawn allowed configuration.

        Where the constraints leave so little that many draws all break one, a random walk from the default is taken
        instead; its end is allowed, though not uniformly drawn.
        """
        names = list(self.tunables)
        for _ in range(_RANDOM_DRAWS):
            config = {name: rng.choice(self.tunables[name].values()) for name in names}
            if all(constraint.holds(config) for constraint in self._predicates):
                return config
        config = self.default
        for _ in range(_RANDOM_STEPS_PER_TUNABLE * len(names)):
            config = rng.choice(self.neighbors(config) or [config])
        return config

    def neighbors(self, config: Mapping[str, Value]) -> list[Config]:
        """Allowed configurations that differ from ``config`` in one tunable by one step."""
        near = []
        for name, t in self.tunables.items():
            for value in t.neighbors(config[name]):
                other = {**config, name: value}
                if all(constraint.holds(other) for constraint in self._predicates):
                    near.append(other)
        return near

    def project(self, config: Mapping[str, Value]) -> Config:
        """The nearest point of this space to a configuration of another one (unknown names dropped, missing filled).

        Where the nearest values together break a constraint, as many of them as fit are taken, in the order of the
        tunables, beginning at the default.
        """
        wanted = {name: t.nearest(config[name]) if name in config else t.start() for name, t in self.tunables.items()}
        if self.allows(wanted):
            return wanted
        point = self.default
        moved = True
        while moved:
            moved = False
            for name, value in wanted.items():
                if point[name] != value and self.allows({**point, name: value}):
                    point[name] = value
                    moved = True
        return point

    def encode(self, config: Mapping[str, Value]) -> list[float]:
        """Numbers in [0, 1], the same count for every configuration of this space."""
        return [x for name, t in self.tunables.items() for x in t.encode(config[name])]
