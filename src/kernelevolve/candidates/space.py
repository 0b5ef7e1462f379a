"""Numeric freedom of a candidate: typed tunables, constraints between them, and points of the space."""

from __future__ import annotations

import ast
import math
import random
from collections.abc import Iterator, Mapping, Sequence
from itertools import product
from typing import Annotated, Literal, TypeAlias

from pydantic import BaseModel, ConfigDict, Field, model_validator

Value: TypeAlias = int | float | str | bool
Config: TypeAlias = dict[str, Value]


class _Tunable(BaseModel):
    """What every kind of tunable knows about itself; values are ordered, neighbours are one step away."""

    model_config = ConfigDict(frozen=True)

    def values(self) -> Sequence[Value]:
        """All values, in order."""
        raise NotImplementedError

    def start(self) -> Value:
        """The value to begin with."""
        raise NotImplementedError

    def neighbors(self, value: Value) -> list[Value]:
        """Values one step up and down (every other value for an unordered kind)."""
        values = list(self.values())
        at = values.index(value)
        return [values[i] for i in (at - 1, at + 1) if 0 <= i < len(values)]

    def nearest(self, value: Value) -> Value:
        """The allowed value closest to ``value``: used to project a parent's configuration into a child's space."""
        values = list(self.values())
        if value in values:
            return value
        if isinstance(value, (int, float)) and all(isinstance(v, (int, float)) for v in values):
            return min(values, key=lambda v: abs(float(v) - float(value)))
        return self.start()

    def encode(self, value: Value) -> list[float]:
        """Numbers in [0, 1] for a regression model."""
        values = list(self.values())
        return [values.index(value) / max(1, len(values) - 1)]


class PowerOfTwo(_Tunable):
    """Powers of two from ``low`` to ``high``, both included."""

    kind: Literal["power_of_two"] = "power_of_two"
    low: int = Field(gt=0)
    high: int = Field(gt=0)
    default: int

    def __init__(self, low: int, high: int, default: int | None = None, **data: object) -> None:
        super().__init__(low=low, high=high, default=low if default is None else default, **data)

    @model_validator(mode="after")
    def _check(self) -> PowerOfTwo:
        for value in (self.low, self.high, self.default):
            if value & (value - 1):
                raise ValueError(f"PowerOfTwo({self.low}, {self.high}, {self.default}): {value} is not a power of two")
        if not self.low <= self.default <= self.high:
            raise ValueError(f"PowerOfTwo: default {self.default} is outside {self.low}..{self.high}")
        return self

    def values(self) -> Sequence[Value]:
        return [1 << i for i in range(int(math.log2(self.low)), int(math.log2(self.high)) + 1)]

    def start(self) -> Value:
        return self.default


class Int(_Tunable):
    """Integers from ``low`` to ``high`` in steps of ``step``, both ends included."""

    kind: Literal["int"] = "int"
    low: int
    high: int
    default: int
    step: int = Field(default=1, gt=0)

    def __init__(self, low: int, high: int, default: int | None = None, step: int = 1, **data: object) -> None:
        super().__init__(low=low, high=high, default=low if default is None else default, step=step, **data)

    @model_validator(mode="after")
    def _check(self) -> Int:
        if self.default not in range(self.low, self.high + 1, self.step):
            raise ValueError(f"Int: default {self.default} is not in range({self.low}, {self.high + 1}, {self.step})")
        return self

    def values(self) -> Sequence[Value]:
        return list(range(self.low, self.high + 1, self.step))

    def start(self) -> Value:
        return self.default


class Choice(_Tunable):
    """One of a few values; numbers are treated as ordered, anything else as unordered."""

    kind: Literal["choice"] = "choice"
    options: tuple[Value, ...]
    default: Value

    def __init__(self, *options: Value, default: Value | None = None, **data: object) -> None:
        given = tuple(data.pop("options", options))  # type: ignore[call-overload]
        super().__init__(options=given, default=given[0] if default is None and given else default, **data)

    @model_validator(mode="after")
    def _check(self) -> Choice:
        if len(set(self.options)) != len(self.options) or not self.options:
            raise ValueError("Choice: options must be distinct and not empty")
        if self.default not in self.options:
            raise ValueError(f"Choice: default {self.default!r} is not an option")
        return self

    @property
    def ordered(self) -> bool:
        """True if all options are numbers."""
        return all(isinstance(o, (int, float)) and not isinstance(o, bool) for o in self.options)

    def values(self) -> Sequence[Value]:
        return list(self.options)

    def start(self) -> Value:
        return self.default

    def neighbors(self, value: Value) -> list[Value]:
        return super().neighbors(value) if self.ordered else [o for o in self.options if o != value]

    def encode(self, value: Value) -> list[float]:
        return super().encode(value) if self.ordered else [float(o == value) for o in self.options]


class Bool(_Tunable):
    """On or off."""

    kind: Literal["bool"] = "bool"
    default: bool = False

    def __init__(self, default: bool = False, **data: object) -> None:
        super().__init__(default=default, **data)

    def values(self) -> Sequence[Value]:
        return [False, True]

    def start(self) -> Value:
        return self.default


Tunable = Annotated[PowerOfTwo | Int | Choice | Bool, Field(discriminator="kind")]

_ARITHMETIC = (
    ast.Expression, ast.BoolOp, ast.And, ast.Or, ast.UnaryOp, ast.Not, ast.USub, ast.BinOp, ast.Add, ast.Sub, ast.Mult,
    ast.FloorDiv, ast.Mod, ast.Div, ast.Compare, ast.Eq, ast.NotEq, ast.Lt, ast.LtE, ast.Gt, ast.GtE, ast.In,
    ast.NotIn, ast.Name, ast.Load, ast.Constant, ast.Tuple, ast.LShift, ast.RShift, ast.IfExp, ast.Pow,
)  # fmt: skip


class TunableSpace(BaseModel):
    """The tunables of a candidate, the constraints between them, and seeds worth trying first.

    A constraint is an arithmetic expression over tunable names (``"BLOCK_M * BLOCK_N <= 16384"``). It is text, so a
    space can be read from a source without running it, and it can name nothing but tunables.
    """

    model_config = ConfigDict(frozen=True)

    tunables: dict[str, Tunable] = Field(default_factory=dict)
    constraints: tuple[str, ...] = ()
    seeds: tuple[Config, ...] = ()

    def __init__(
        self,
        tunables: Mapping[str, _Tunable] | None = None,
        constraints: Sequence[str] = (),
        seeds: Sequence[Mapping[str, Value]] = (),
    ) -> None:
        super().__init__(tunables=dict(tunables or {}), constraints=tuple(constraints), seeds=tuple(map(dict, seeds)))

    @model_validator(mode="after")
    def _check(self) -> TunableSpace:
        for text in self.constraints:
            for node in ast.walk(ast.parse(text, mode="eval")):
                if not isinstance(node, _ARITHMETIC):
                    raise ValueError(f"constraint {text!r} may use arithmetic and comparisons only")
                if isinstance(node, ast.Name) and node.id not in self.tunables:
                    raise ValueError(f"constraint {text!r} names {node.id!r}, which is not a tunable")
        for seed in self.seeds:
            unknown = set(seed) - set(self.tunables)
            if unknown:
                raise ValueError(f"seed names unknown tunables {sorted(unknown)}")
        return self

    @property
    def default(self) -> Config:
        """The starting value of every tunable."""
        return {name: t.start() for name, t in self.tunables.items()}

    def allows(self, config: Mapping[str, Value]) -> bool:
        """True if the configuration names every tunable, with allowed values that satisfy every constraint."""
        if set(config) != set(self.tunables):
            return False
        if any(config[name] not in t.values() for name, t in self.tunables.items()):
            return False
        scope = {"__builtins__": {}, **config}
        try:
            return all(eval(compile(text, "<constraint>", "eval"), scope) for text in self.constraints)
        except ArithmeticError:
            return False

    def size(self) -> int:
        """Number of points before constraints."""
        return math.prod(len(t.values()) for t in self.tunables.values())

    def points(self) -> Iterator[Config]:
        """Every allowed configuration, in order."""
        names = list(self.tunables)
        for values in product(*(self.tunables[n].values() for n in names)):
            config = dict(zip(names, values, strict=True))
            if self.allows(config):
                yield config

    def random(self, rng: random.Random, attempts: int = 200) -> Config:
        """A uniformly drawn allowed configuration (the default if ``attempts`` draws all break a constraint)."""
        for _ in range(attempts):
            config = {name: rng.choice(list(t.values())) for name, t in self.tunables.items()}
            if self.allows(config):
                return config
        return self.default

    def neighbors(self, config: Mapping[str, Value]) -> list[Config]:
        """Allowed configurations that differ from ``config`` in one tunable by one step."""
        near = []
        for name, t in self.tunables.items():
            for value in t.neighbors(config[name]):
                other = {**config, name: value}
                if self.allows(other):
                    near.append(other)
        return near

    def project(self, config: Mapping[str, Value]) -> Config:
        """The nearest point of this space to a configuration of another one (unknown names dropped, missing filled)."""
        near = {name: t.nearest(config[name]) if name in config else t.start() for name, t in self.tunables.items()}
        return near if self.allows(near) else self.default

    def encode(self, config: Mapping[str, Value]) -> list[float]:
        """Numbers in [0, 1], the same count for every configuration of this space."""
        return [x for name, t in self.tunables.items() for x in t.encode(config[name])]
