"""Scalar expressions over buffers: the value of one element.

Views have been composed into the index of each load. Low-precision values (float16, bfloat16) are computed in float32:
a load of such a buffer is wrapped in a ``Cast`` to float32, and a store rounds to the dtype of the buffer.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import TypeAlias

from kernelevolve.operators.synthesis.buffer import Buffer
from kernelevolve.operators.synthesis.dtype import FLOATING, INTEGRAL, DType
from kernelevolve.operators.synthesis.index import Index, Size, Var


@dataclass(frozen=True)
class Const:
    """A literal; floating infinities and NaN are allowed."""

    value: float | int | bool
    dtype: DType

    def __str__(self) -> str:
        return str(self.value)

    # NaN differs from itself, so constants compare by their text.
    def __eq__(self, other: object) -> bool:
        return isinstance(other, Const) and (repr(self.value), self.dtype) == (repr(other.value), other.dtype)

    def __hash__(self) -> int:
        return hash((repr(self.value), self.dtype))

    @property
    def variables(self) -> frozenset[Var]:
        return frozenset()

    def substitute(self, mapping: Mapping[Var, Index]) -> Expr:
        return self


@dataclass(frozen=True)
class Load:
    """One element of a buffer. Indices are in range unless the load stands under a ``Masked``."""

    buffer: Buffer
    index: tuple[Index, ...]

    @property
    def dtype(self) -> DType:
        return self.buffer.dtype

    def __str__(self) -> str:
        return f"{self.buffer.name}[{', '.join(map(str, self.index))}]"

    @cached_property
    def variables(self) -> frozenset[Var]:
        return frozenset(v for i in self.index for v in i.variables)

    def substitute(self, mapping: Mapping[Var, Index]) -> Expr:
        return Load(self.buffer, tuple(i.substitute(mapping) for i in self.index))


@dataclass(frozen=True)
class Op:
    """A primitive of ``OPERATIONS`` applied to arguments; ``dtype`` is the dtype of the result.

    Arguments have equal dtypes (lowering inserts casts), except for ``where`` whose first is bool.
    """

    name: str
    args: tuple[Expr, ...]
    dtype: DType

    def __str__(self) -> str:
        return f"{self.name}({', '.join(map(str, self.args))})"

    @cached_property
    def variables(self) -> frozenset[Var]:
        return frozenset(v for a in self.args for v in a.variables)

    def substitute(self, mapping: Mapping[Var, Index]) -> Expr:
        return Op(self.name, tuple(a.substitute(mapping) for a in self.args), self.dtype)


@dataclass(frozen=True)
class Cast:
    """Conversion as torch does it (float to int truncates; anything to bool is ``!= 0``)."""

    arg: Expr
    dtype: DType

    def __str__(self) -> str:
        return f"{self.dtype}({self.arg})"

    @property
    def variables(self) -> frozenset[Var]:
        return self.arg.variables

    def substitute(self, mapping: Mapping[Var, Index]) -> Expr:
        return Cast(self.arg.substitute(mapping), self.dtype)


@dataclass(frozen=True)
class IndexValue:
    """A position as a value: arange, iota, a size."""

    index: Index
    dtype: DType

    def __str__(self) -> str:
        return f"({self.index})"

    @property
    def variables(self) -> frozenset[Var]:
        return self.index.variables

    def substitute(self, mapping: Mapping[Var, Index]) -> Expr:
        return IndexValue(self.index.substitute(mapping), self.dtype)


@dataclass(frozen=True)
class Masked:
    """``value`` where ``condition`` holds, else ``other``; loads in ``value`` may be out of range where it does not."""

    condition: Expr
    value: Expr
    other: Expr

    @property
    def dtype(self) -> DType:
        return self.value.dtype

    def __str__(self) -> str:
        return f"({self.value} if {self.condition} else {self.other})"

    @cached_property
    def variables(self) -> frozenset[Var]:
        return self.condition.variables | self.value.variables | self.other.variables

    def substitute(self, mapping: Mapping[Var, Index]) -> Expr:
        return Masked(*(e.substitute(mapping) for e in (self.condition, self.value, self.other)))


@dataclass(frozen=True)
class Search:
    """Insertion position of ``value`` in ``length`` ascending elements of a buffer, 0 to ``length`` included.

    ``row`` is the position in the leading dimensions of ``sorted``; the last dimension is searched. With ``right`` the
    first position whose element is greater, else the first whose element is not less. NaN goes to the end.
    """

    sorted: Buffer
    row: tuple[Index, ...]
    length: Index
    value: Expr
    right: bool
    dtype: DType

    def __str__(self) -> str:
        return f"search({self.sorted.name}[{', '.join(map(str, self.row))}], {self.value})"

    @cached_property
    def variables(self) -> frozenset[Var]:
        return frozenset(v for i in (*self.row, self.length) for v in i.variables) | self.value.variables

    def substitute(self, mapping: Mapping[Var, Index]) -> Expr:
        row = tuple(i.substitute(mapping) for i in self.row)
        return Search(
            self.sorted, row, self.length.substitute(mapping), self.value.substitute(mapping), self.right, self.dtype
        )


@dataclass(frozen=True)
class TableValue:
    """An entry of a short table of integers or sizes: that in which the members of a family differ."""

    values: tuple[Index, ...]
    index: Index
    dtype: DType

    def __str__(self) -> str:
        return f"table[{', '.join(map(str, self.values))}][{self.index}]"

    @property
    def variables(self) -> frozenset[Var]:
        return self.index.variables

    def substitute(self, mapping: Mapping[Var, Index]) -> Expr:
        return TableValue(self.values, self.index.substitute(mapping), self.dtype)


Expr: TypeAlias = Const | Load | Op | Cast | IndexValue | Masked | Search | TableValue


@dataclass(frozen=True)
class Value:
    """A position read from memory (a gather), an atom of an index: ``0 <= expr < bound``, which lowering guarantees."""

    expr: Expr
    bound: Index

    def __str__(self) -> str:
        return f"<{self.expr}>"

    @property
    def variables(self) -> frozenset[Var]:
        return self.expr.variables

    @property
    def sizes(self) -> frozenset[Size]:
        return frozenset()

    @property
    def greatest(self) -> Index:
        return self.bound - 1

    def substitute(self, mapping: Mapping[Var, Index]) -> Index:
        return Index.of(Value(self.expr.substitute(mapping), self.bound))

    def evaluate(self, environment: Mapping[str, int]) -> int:
        raise KeyError(str(self))


def cast(expr: Expr, dtype: DType) -> Expr:
    """``expr`` converted to a dtype; nothing if it has it, a literal if it is one."""
    if expr.dtype == dtype:
        return expr
    if isinstance(expr, Const):
        if dtype == "bool":
            return Const(bool(expr.value), dtype)
        if dtype in FLOATING:
            return Const(float(expr.value), dtype)
        if math.isfinite(expr.value):
            return Const(int(expr.value), dtype)
    if isinstance(expr, IndexValue) and dtype in INTEGRAL:
        return IndexValue(expr.index, dtype)
    return Cast(expr, dtype)


OPERATIONS: Mapping[str, int] = {
    # arithmetic
    "add": 2, "sub": 2, "mul": 2, "div": 2, "neg": 1, "abs": 1, "sign": 1, "reciprocal": 1, "square": 1,
    "maximum": 2, "minimum": 2, "floor_divide": 2, "trunc_divide": 2, "remainder": 2, "fmod": 2, "fma": 3,
    # rounding
    "floor": 1, "ceil": 1, "round": 1, "trunc": 1,
    # transcendental
    "exp": 1, "exp2": 1, "expm1": 1, "log": 1, "log2": 1, "log10": 1, "log1p": 1, "sqrt": 1, "rsqrt": 1, "pow": 2,
    "sin": 1, "cos": 1, "tan": 1, "asin": 1, "acos": 1, "atan": 1, "sinh": 1, "cosh": 1, "tanh": 1, "asinh": 1,
    "acosh": 1, "atanh": 1, "atan2": 2, "erf": 1, "erfc": 1, "hypot": 2, "copysign": 2,
    # activations that have a closed form cheaper than their parts
    "sigmoid": 1, "silu": 1, "gelu": 1, "gelu_tanh": 1, "softplus": 1,
    # comparison (bool result), logic, bits
    "eq": 2, "ne": 2, "lt": 2, "le": 2, "gt": 2, "ge": 2, "isnan": 1, "isinf": 1,
    "and": 2, "or": 2, "xor": 2, "not": 1, "shift_left": 2, "shift_right": 2,
    # selection: where(condition, a, b)
    "where": 3,
}  # fmt: skip
"""Primitive -> number of arguments. ``maximum`` and ``minimum`` propagate NaN; ``and``, ``or``, ``xor``, ``not`` are
bitwise on integers and logical on bool; ``remainder`` has the sign of the divisor, ``fmod`` of the dividend;
``softplus`` is log(1 + exp(x)) for every x, computed without overflow."""
