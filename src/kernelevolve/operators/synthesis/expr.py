"""Buffers and the scalar expressions over them: the value of one element.

Buffers are row-major and contiguous. Views have been composed into the index of each load. Low-precision values
(float16, bfloat16) are computed in float32: a load of such a buffer is wrapped in a ``Cast`` to float32, and a store
rounds to the dtype of the buffer.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from functools import cached_property
from typing import TypeAlias

from kernelevolve.operators.synthesis.index import FloorDiv, Index, Mod, Value, Var

DType: TypeAlias = str
"""A torch dtype name without 'torch.': 'float32', 'float16', 'bfloat16', 'float64', 'int64', 'bool', …"""

FLOATING = frozenset({"float16", "bfloat16", "float32", "float64"})
INTEGRAL = frozenset({"int8", "int16", "int32", "int64", "uint8"})
DTYPES = FLOATING | INTEGRAL | {"bool"}
ITEM_BYTES: Mapping[DType, int] = {
    "bool": 1, "int8": 1, "uint8": 1, "int16": 2, "float16": 2, "bfloat16": 2, "int32": 4, "float32": 4,
    "int64": 8, "float64": 8,
}  # fmt: skip


def compute_dtype(dtype: DType) -> DType:
    """The dtype in which values of a storage dtype are computed: float32 for the two 16-bit floats, else itself."""
    return "float32" if dtype in ("float16", "bfloat16") else dtype


class Role(StrEnum):
    """What a buffer is to the program."""

    INPUT = "input"
    WEIGHT = "weight"
    """A parameter or registered buffer of the module; its content may change between calls."""
    CONSTANT = "constant"
    """A tensor literal of the reference, the same in every call."""
    TEMPORARY = "temporary"
    OUTPUT = "output"
    FAMILY = "family"
    """Several buffers of one rank and dtype seen as one: the first index chooses the member."""
    ROW = "row"
    """Scratch of one row of a kernel (see ``kernels.LoopKernel``); never in memory between kernels."""


@dataclass(frozen=True)
class Buffer:
    """A contiguous row-major tensor. ``name`` is unique in a program and a valid identifier in C and Python."""

    name: str
    shape: tuple[Index, ...]
    dtype: DType
    role: Role
    members: tuple[Buffer, ...] = ()
    """For a FAMILY: the buffers that the first index chooses from. ``shape[1:]`` is the shape of each member, except
    that ragged leading sizes are given by their maximum."""

    @property
    def numel(self) -> Index:
        """Elements."""
        total = Index.of(1)
        for size in self.shape:
            total = total * size
        return total


# Expressions


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


def children(expr: Expr) -> tuple[Expr, ...]:
    """Direct sub-expressions, those inside indices (gathers) excluded; see ``indices``."""
    if isinstance(expr, Op):
        return expr.args
    if isinstance(expr, Cast):
        return (expr.arg,)
    if isinstance(expr, Masked):
        return (expr.condition, expr.value, expr.other)
    if isinstance(expr, Search):
        return (expr.value,)
    return ()


def indices(expr: Expr) -> tuple[Index, ...]:
    """Index expressions that stand directly in an expression."""
    if isinstance(expr, Load):
        return expr.index
    if isinstance(expr, Search):
        return (*expr.row, expr.length)
    if isinstance(expr, (IndexValue, TableValue)):
        return (expr.index,)
    return ()


def walk(expr: Expr) -> Iterator[Expr]:
    """The expression and all below it, also those inside indices, parents first."""
    yield expr
    for child in children(expr):
        yield from walk(child)
    for index in indices(expr):
        yield from walk_index(index)


def walk_index(index: Index) -> Iterator[Expr]:
    """All expressions read inside an index."""
    for atom in index.atoms:
        if isinstance(atom, Value):
            yield from walk(atom.expr)
        elif isinstance(atom, (FloorDiv, Mod)):
            yield from walk_index(atom.numerator)


def rebuild(expr: Expr, leaf: Callable[[Expr], Expr | None]) -> Expr:
    """The expression with each node for which ``leaf`` gives a replacement replaced, top down, also in indices."""
    replaced = leaf(expr)
    if replaced is not None:
        return replaced
    if isinstance(expr, Op):
        return Op(expr.name, tuple(rebuild(a, leaf) for a in expr.args), expr.dtype)
    if isinstance(expr, Cast):
        return cast(rebuild(expr.arg, leaf), expr.dtype)
    if isinstance(expr, Masked):
        return Masked(rebuild(expr.condition, leaf), rebuild(expr.value, leaf), rebuild(expr.other, leaf))
    if isinstance(expr, Load):
        return Load(expr.buffer, tuple(rebuild_index(i, leaf) for i in expr.index))
    if isinstance(expr, Search):
        row = tuple(rebuild_index(i, leaf) for i in expr.row)
        return Search(
            expr.sorted, row, rebuild_index(expr.length, leaf), rebuild(expr.value, leaf), expr.right, expr.dtype
        )
    if isinstance(expr, IndexValue):
        return IndexValue(rebuild_index(expr.index, leaf), expr.dtype)
    if isinstance(expr, TableValue):
        return TableValue(expr.values, rebuild_index(expr.index, leaf), expr.dtype)
    return expr


def rebuild_index(index: Index, leaf: Callable[[Expr], Expr | None]) -> Index:
    """``rebuild`` applied to the values read inside an index."""
    if not any(isinstance(a, (Value, FloorDiv, Mod)) for a in index.atoms):
        return index
    total = Index()
    for monomial, coefficient in index.terms:
        term = Index.of(coefficient)
        for atom in monomial:
            if isinstance(atom, Value):
                term = term * Index.of(Value(rebuild(atom.expr, leaf), atom.bound))
            elif isinstance(atom, FloorDiv):
                term = term * (rebuild_index(atom.numerator, leaf) // atom.denominator)
            elif isinstance(atom, Mod):
                term = term * (rebuild_index(atom.numerator, leaf) % atom.denominator)
            else:
                term = term * Index.of(atom)
        total = total + term
    return total


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


def loads(expr: Expr) -> Iterator[Load]:
    """All loads of an expression, also those inside indices."""
    return (e for e in walk(expr) if isinstance(e, Load))
