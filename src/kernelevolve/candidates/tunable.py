"""The kinds of tunable: one number or choice that a candidate leaves open, with its values and their order."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import cached_property
from typing import Annotated, Any, Literal, TypeAlias

from pydantic import BaseModel, ConfigDict, Field, model_validator

Value: TypeAlias = int | float | str | bool

MAX_VALUES = 4096
"""A tunable with more values than this is a mistake: nobody can search it, and listing them would cost memory."""


def is_number(value: object) -> bool:
    """True for int and float, not for bool (which Python counts as an int)."""
    return isinstance(value, (int, float)) and not isinstance(value, bool)


class BaseTunable(BaseModel):
    """What every kind knows about itself: its values, their neighbours, and how a model sees them."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    def values(self) -> Sequence[Value]:
        """All values, in order."""
        raise NotImplementedError

    def start(self) -> Value:
        """The value to begin with."""
        raise NotImplementedError

    @property
    def ordered(self) -> bool:
        """True if neighbouring values behave alike."""
        return True

    @cached_property
    def _index(self) -> dict[tuple[type, Value], int]:
        # The type is part of the key: 1, 1.0 and True are equal in Python, and are different texts in a source.
        return {(type(value), value): i for i, value in enumerate(self.values())}

    def position(self, value: Value) -> int:
        """The index of ``value`` in ``values()``; ValueError if it is none of them."""
        at = self._index.get((type(value), value))
        if at is None:
            raise ValueError(f"{value!r} is not one of {list(self.values())!r}")
        return at

    def contains(self, value: Value) -> bool:
        """True if ``value`` is one of the values, of the same type."""
        return (type(value), value) in self._index

    def neighbors(self, value: Value) -> list[Value]:
        """Values one step down and up (every other value for an unordered kind)."""
        values, at = self.values(), self.position(value)
        if not self.ordered:
            return [other for i, other in enumerate(values) if i != at]
        return [values[i] for i in (at - 1, at + 1) if 0 <= i < len(values)]

    def nearest(self, value: Value) -> Value:
        """The value closest to ``value``, which may come from another space; the start if nothing is close."""
        if self.contains(value):
            return value
        if self.ordered and is_number(value):
            return min(self.values(), key=lambda own: self._distance(own, value))
        return self.start()

    def _distance(self, own: Value, other: Value) -> float:
        return abs(float(own) - float(other))

    def encode(self, value: Value) -> list[float]:
        """Numbers in [0, 1] for a regression model: the position, or one number per value for an unordered kind."""
        at, count = self.position(value), len(self.values())
        if self.ordered:
            return [at / max(1, count - 1)]
        return [float(i == at) for i in range(count)]


class PowerOfTwo(BaseTunable):
    """Powers of two from ``low`` to ``high``, both included."""

    kind: Literal["power_of_two"] = "power_of_two"
    low: int = Field(gt=0)
    high: int = Field(gt=0)
    default: int

    def __init__(self, low: int, high: int, default: int | None = None, **data: Any) -> None:
        BaseModel.__init__(self, low=low, high=high, default=low if default is None else default, **data)

    @model_validator(mode="after")
    def _check(self) -> PowerOfTwo:
        text = f"PowerOfTwo({self.low}, {self.high}, {self.default})"
        for value in (self.low, self.high, self.default):
            if value <= 0 or value & (value - 1):
                raise ValueError(f"{text}: {value} is not a power of two")
        if not self.low <= self.default <= self.high:
            raise ValueError(f"{text}: the default is not between low and high")
        return self

    def values(self) -> Sequence[Value]:
        return [1 << i for i in range(self.low.bit_length() - 1, self.high.bit_length())]

    def start(self) -> Value:
        return self.default

    def _distance(self, own: Value, other: Value) -> float:
        return abs(math.log2(float(own)) - math.log2(float(other))) if float(other) > 0 else float(own)


class Int(BaseTunable):
    """Integers from ``low`` to ``high`` in steps of ``step``, both ends included."""

    kind: Literal["int"] = "int"
    low: int
    high: int
    default: int
    step: int = Field(default=1, gt=0)

    def __init__(self, low: int, high: int, default: int | None = None, step: int = 1, **data: Any) -> None:
        BaseModel.__init__(self, low=low, high=high, default=low if default is None else default, step=step, **data)

    @model_validator(mode="after")
    def _check(self) -> Int:
        values = range(self.low, self.high + 1, self.step)
        if self.default not in values:
            raise ValueError(f"Int: default {self.default} is not in range({self.low}, {self.high + 1}, {self.step})")
        if len(values) > MAX_VALUES:
            raise ValueError(f"Int: {len(values)} values are more than {MAX_VALUES}; use a larger step")
        return self

    def values(self) -> Sequence[Value]:
        return range(self.low, self.high + 1, self.step)

    def start(self) -> Value:
        return self.default


class Choice(BaseTunable):
    """One of a few values; numbers are treated as ordered, anything else as unordered."""

    kind: Literal["choice"] = "choice"
    options: tuple[Value, ...] = Field(min_length=1, max_length=MAX_VALUES)
    default: Value

    def __init__(self, *values: Value, default: Value | None = None, **data: Any) -> None:
        options = tuple(data.pop("options", values))
        BaseModel.__init__(
            self, options=options, default=options[0] if default is None and options else default, **data
        )

    @model_validator(mode="after")
    def _check(self) -> Choice:
        if len(set(self.options)) != len(self.options):
            raise ValueError(f"Choice: the options {list(self.options)} are not distinct")
        if not self.contains(self.default):
            raise ValueError(f"Choice: default {self.default!r} is not an option")
        return self

    @property
    def ordered(self) -> bool:
        """True if all options are numbers."""
        return all(map(is_number, self.options))

    def values(self) -> Sequence[Value]:
        return self.options

    def start(self) -> Value:
        return self.default


class Bool(BaseTunable):
    """On or off."""

    kind: Literal["bool"] = "bool"
    default: bool = False

    def __init__(self, default: bool = False, **data: Any) -> None:
        BaseModel.__init__(self, default=default, **data)

    def values(self) -> Sequence[Value]:
        return (False, True)

    def start(self) -> Value:
        return self.default

    def nearest(self, value: Value) -> Value:
        """Zero and one of another space are off and on."""
        return bool(value) if is_number(value) else super().nearest(value)


Tunable = Annotated[PowerOfTwo | Int | Choice | Bool, Field(discriminator="kind")]
