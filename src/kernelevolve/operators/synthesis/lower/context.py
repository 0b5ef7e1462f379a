"""The state of one lowering: what each graph node stands for, and the operations written so far."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import fx

from kernelevolve.operators.synthesis.buffer import Buffer, Role
from kernelevolve.operators.synthesis.dtype import DTYPES, INTEGRAL, DType, compute_dtype
from kernelevolve.operators.synthesis.expr import Cast, Const, Expr, IndexValue, Load, Op, cast
from kernelevolve.operators.synthesis.index import Index, Var, non_negative
from kernelevolve.operators.synthesis.ir import Operation, Pointwise, StridedView, Target
from kernelevolve.operators.synthesis.layout import flatten, strides_of


class NotLowered(Exception):
    """This form of an operation has no loop form here: it stays a torch call."""


@dataclass(frozen=True)
class Tensor:
    """What a graph node stands for: a shape and the value at a position, as an expression over ``axes``.

    ``axes`` has one variable a dimension (those of size 1 do not occur in ``expr``). The expression has the storage
    dtype and is a load, or views, literals and masks around one: whatever costs arithmetic has been given a buffer.
    """

    shape: tuple[Index, ...]
    dtype: DType
    axes: tuple[Var, ...]
    expr: Expr

    def at(self, index: Sequence[Index]) -> Expr:
        """The value at a position, in the storage dtype."""
        return self.expr.substitute(dict(zip(self.axes, index, strict=True)))

    def value(self, index: Sequence[Index], dtype: DType | None = None) -> Expr:
        """The value at a position, broadcast from trailing dimensions, converted (default: to its compute dtype)."""
        tail = list(index)[len(index) - len(self.shape) :]
        position = [Index() if s.constant == 1 else i for i, s in zip(tail, self.shape, strict=True)]
        return cast(cast(self.at(position), compute_dtype(self.dtype)), dtype or compute_dtype(self.dtype))


Argument = Tensor | int | float | bool
"""What a pointwise operation takes."""


class Lowering:
    """Collects operations; handlers in this package add to it."""

    def __init__(self, size_of: Callable[[Any], Index]) -> None:
        self.operations: list[Operation] = []
        self.values: dict[fx.Node, Any] = {}
        self._size_of = size_of
        self._names: dict[str, int] = {}
        self._variables = 0

    # Sizes and names

    def size(self, value: Any) -> Index:
        """An int, SymInt or node that yields one as an expression over runtime sizes."""
        return self._size_of(value.meta["val"] if isinstance(value, fx.Node) else value)

    def shape(self, value: Any) -> tuple[Index, ...]:
        """The shape of a node or fake tensor."""
        fake = value.meta["val"] if isinstance(value, fx.Node) else value
        return tuple(self._size_of(s) for s in fake.shape)

    def sizes(self, values: Sequence[Any]) -> tuple[Index, ...]:
        """``size`` of each."""
        return tuple(self.size(v) for v in values)

    def name(self, hint: str) -> str:
        """A fresh identifier."""
        base = re.sub(r"\W", "_", hint)
        count = self._names.get(base, 0)
        self._names[base] = count + 1
        return base if count == 0 else self.name(f"{base}_{count}")

    def axes(self, shape: Sequence[Index]) -> tuple[Var, ...]:
        """Fresh loop variables, one a dimension."""
        made = tuple(Var(f"v{self._variables + d}", size) for d, size in enumerate(shape))
        self._variables += len(made)
        return made

    # Nodes

    def tensor(self, node: Any) -> Tensor:
        """The tensor of a node; NotLowered if it has none with a loop form."""
        value = self.values.get(node) if isinstance(node, fx.Node) else None
        if not isinstance(value, Tensor):
            raise NotLowered("a tensor argument has no loop form")
        return value

    def argument(self, value: Any) -> Argument | Index:
        """A tensor, number or size argument."""
        if isinstance(value, fx.Node):
            held = self.values[value]
            if isinstance(held, (Tensor, Index)):
                return held
            raise NotLowered("an argument has no loop form")
        if isinstance(value, (int, float, bool)):
            return value
        raise NotLowered(f"an argument is {type(value).__name__}")

    # Building

    def dtype(self, node: Any) -> DType:
        """The dtype name of a node or fake tensor."""
        fake = node.meta["val"] if isinstance(node, fx.Node) else node
        return dtype_name(fake.dtype)

    def wrap(self, buffer: Buffer) -> Tensor:
        """A buffer as a tensor."""
        axes = self.axes(buffer.shape)
        return Tensor(buffer.shape, buffer.dtype, axes, Load(buffer, positions(axes)))

    def temporary(self, name: str, shape: tuple[Index, ...], dtype: DType) -> Buffer:
        """A fresh buffer."""
        return Buffer(self.name(name), shape, dtype, Role.TEMPORARY)

    def pointwise(
        self, name: str, shape: tuple[Index, ...], dtype: DType, value: Callable[[tuple[Index, ...]], Expr]
    ) -> Tensor:
        """Add an operation that computes ``value(position)`` everywhere into a fresh buffer."""
        axes = self.axes(shape)
        at = positions(axes)
        buffer = self.temporary(name, shape, dtype)
        kept = tuple(a for a in axes if a.extent.constant != 1)
        self.operations.append(Pointwise(buffer.name, kept, Target(buffer, at), value(at), (name,)))
        return self.wrap(buffer)

    def view(
        self, source: Tensor, shape: Sequence[Index], where: Callable[[tuple[Index, ...]], Sequence[Index]]
    ) -> Tensor:
        """A tensor whose element at a position is the source's at ``where(position)``."""
        axes = self.axes(shape)
        return Tensor(tuple(shape), source.dtype, axes, source.at(list(where(positions(axes)))))

    def materialised(self, source: Tensor, name: str) -> Buffer:
        """A buffer that holds the tensor row-major: its own, or a fresh copy."""
        if isinstance(source.expr, Load) and covers(source, source.expr):
            return source.expr.buffer
        made = self.pointwise(name, source.shape, source.dtype, source.at)
        assert isinstance(made.expr, Load)
        return made.expr.buffer

    def strided(self, source: Tensor, name: str) -> StridedView:
        """The tensor as an argument of a torch call, copied only if it is no strided view of a buffer."""
        expr = source.expr
        if isinstance(expr, Load):
            offset = flatten(expr.index, expr.buffer.shape)
            strides = [Index() if a.extent.constant == 1 else offset.coefficient(a) for a in source.axes]
            start = offset.substitute({a: Index() for a in source.axes})
            # torch has no negative strides: a flipped tensor is copied.
            usable = all(s is not None and not s.variables and non_negative(s) for s in strides)
            if offset.affine and usable and not start.variables:
                plain = StridedView(expr.buffer, source.shape, tuple(s for s in strides if s is not None), start)
                return _with_unit_strides(plain)
        buffer = self.materialised(source, f"{name}_copy")
        return _with_unit_strides(StridedView(buffer, source.shape, tuple(Index() for _ in source.shape)), whole=True)


def _with_unit_strides(view: StridedView, whole: bool = False) -> StridedView:
    """Row-major strides where they are free to be (dimensions of size 1), or everywhere."""
    natural = strides_of(view.shape)
    strides = tuple(
        n if whole or size.constant == 1 else s for s, n, size in zip(view.strides, natural, view.shape, strict=True)
    )
    return StridedView(view.buffer, view.shape, strides, view.offset)


def covers(tensor: Tensor, load: Load) -> bool:
    """True if the tensor is the whole buffer that its load reads, in the same order."""
    return load.buffer.shape == tensor.shape and load.index == positions(tensor.axes)


def positions(axes: Sequence[Var]) -> tuple[Index, ...]:
    """The position that loop variables stand for: 0 in dimensions of size 1."""
    return tuple(Index() if a.extent.constant == 1 else Index.of(a) for a in axes)


def scalar(value: Argument | Index, index: Sequence[Index], dtype: DType) -> Expr:
    """An argument at a position as a value of a dtype."""
    if isinstance(value, Tensor):
        return value.value(index, dtype)
    if isinstance(value, Index):
        return IndexValue(value, dtype) if dtype in INTEGRAL else Cast(IndexValue(value, "int64"), dtype)
    kind = "bool" if isinstance(value, bool) else "int64" if isinstance(value, int) else "float64"
    return cast(Const(value, kind), dtype)


def op(name: str, *args: Expr, dtype: DType | None = None) -> Expr:
    """A primitive whose result has the dtype of its last argument unless stated."""
    return Op(name, args, dtype or args[-1].dtype)


def dtype_name(dtype: torch.dtype) -> DType:
    """Name of a torch dtype; NotLowered for one without a loop form (complex, quantised, float8)."""
    name = str(dtype).removeprefix("torch.")
    if name not in DTYPES:
        raise NotLowered(f"dtype {name} has no loop form")
    return name


def symbolic_sizes(names: Mapping[str, Index]) -> Callable[[Any], Index]:
    """A converter of ints and SymInts to Index; ``names`` says what each symbol of the graph stands for.

    It raises NotLowered for an expression that is no polynomial with quotients and remainders.
    """
    import sympy  # type: ignore[import-untyped]

    def convert(expr: Any) -> Index:
        if expr.is_Integer:
            return Index.of(int(expr))
        if expr.is_Symbol:
            held = names.get(str(expr))
            if held is None:
                raise NotLowered(f"the size {expr} is known only from values")
            return held
        parts = [convert(a) for a in expr.args]
        if isinstance(expr, sympy.Add):
            return sum(parts[1:], parts[0])
        if isinstance(expr, sympy.Mul):
            total = parts[0]
            for part in parts[1:]:
                total = total * part
            return total
        if isinstance(expr, sympy.Pow) and parts[1].constant is not None and parts[1].constant > 0:
            total = parts[0]
            for _ in range(parts[1].constant - 1):
                total = total * parts[0]
            return total
        kind = type(expr).__name__
        if kind in ("FloorDiv", "CleanDiv"):
            return parts[0] // parts[1]
        if kind in ("Mod", "PythonMod"):
            return parts[0] % parts[1]
        raise NotLowered(f"the size {expr} has no loop form")

    def size(value: Any) -> Index:
        if isinstance(value, Index):
            return value
        if isinstance(value, torch.SymInt):
            return convert(value.node.expr)
        if isinstance(value, int):
            return Index.of(int(value))
        raise NotLowered(f"{type(value).__name__} is no size")

    return size
