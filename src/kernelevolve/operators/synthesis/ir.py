"""The loop-level intermediate form: what is computed, element by element, with no word about how it is scheduled.

A ``Program`` is a list of operations in data-flow order. Each operation has an iteration space of loop variables and
writes one element of a buffer at each point of it. ``kernels.py`` holds the scheduled form that emitters read.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, TypeAlias

from kernelevolve.operators.synthesis.buffer import Buffer
from kernelevolve.operators.synthesis.expr import Expr, Load, Search
from kernelevolve.operators.synthesis.index import Index, Size, Var
from kernelevolve.operators.synthesis.layout import strides_of
from kernelevolve.operators.synthesis.traversal import walk


@dataclass(frozen=True)
class Target:
    """Where a result goes: one element of a buffer."""

    buffer: Buffer
    index: tuple[Index, ...]

    def substitute(self, mapping: Mapping[Var, Index]) -> Target:
        return Target(self.buffer, tuple(i.substitute(mapping) for i in self.index))

    def __str__(self) -> str:
        return f"{self.buffer.name}[{', '.join(map(str, self.index))}]"


class Combine(StrEnum):
    """How a reduction combines values. Sums and products of 16-bit floats accumulate in float32."""

    SUM = "sum"
    PROD = "prod"
    MAX = "max"
    MIN = "min"
    ANY = "any"
    ALL = "all"
    ARGMAX = "argmax"
    """Row-major position within the reduced axes of the first largest value; a NaN counts as largest."""
    ARGMIN = "argmin"
    MOMENTS = "moments"
    """Two targets: the mean, and the sum of squared distances from it, in one pass over the data."""


@dataclass(frozen=True)
class Segment:
    """A reduced axis whose bounds are read from memory: ``begin <= var < end`` (its extent is an upper bound)."""

    var: Var
    begin: Expr
    end: Expr


@dataclass(frozen=True)
class Pointwise:
    """``target = value`` at every point of ``axes``."""

    name: str
    axes: tuple[Var, ...]
    target: Target
    value: Expr
    origins: tuple[str, ...] = ()
    """Names of the ATen nodes that this computes."""


@dataclass(frozen=True)
class Reduction:
    """``target = combine over reduced of value`` at every point of ``axes``.

    The result has the compute dtype of the value for sums and products (int64 for argmax and argmin); an empty
    ``segment`` gives the neutral element.
    """

    name: str
    axes: tuple[Var, ...]
    reduced: tuple[Var, ...]
    combine: Combine
    value: Expr
    targets: tuple[Target, ...]
    segment: Segment | None = None
    origins: tuple[str, ...] = ()


@dataclass(frozen=True)
class Product:
    """``target = sum over contracted of left * right``: matrix products and convolutions alike.

    ``batch`` appears in both sides and the target, ``rows`` in ``left`` and the target, ``columns`` in ``right`` and
    the target, ``contracted`` in both sides only. Sides are expressions (a load, a masked load for padding, a cast);
    sums are kept in float32 (float64 for float64).
    """

    name: str
    batch: tuple[Var, ...]
    rows: tuple[Var, ...]
    columns: tuple[Var, ...]
    contracted: tuple[Var, ...]
    left: Expr
    right: Expr
    target: Target
    origins: tuple[str, ...] = ()
    library: Extern | None = None
    """The torch call that computes the same, if there is one."""

    @property
    def axes(self) -> tuple[Var, ...]:
        return (*self.batch, *self.rows, *self.columns)


_SMALL_AXIS = 9


def split_contracted(axes: tuple[Var, ...]) -> tuple[tuple[Var, ...], tuple[Var, ...]]:
    """Contracted axes short enough to be unrolled (the taps of a convolution), and those walked in blocks."""
    small = tuple(v for v in axes if (v.extent.constant or _SMALL_AXIS + 1) <= _SMALL_AXIS)
    long = tuple(v for v in axes if v not in small)
    return (small, long) if long else (small[1:], small[:1])


@dataclass(frozen=True)
class StridedView:
    """A tensor argument of a torch call: ``buffer.as_strided(shape, strides, offset)``, in elements."""

    buffer: Buffer
    shape: tuple[Index, ...]
    strides: tuple[Index, ...]
    offset: Index = field(default_factory=Index)

    @property
    def plain(self) -> bool:
        """True if it is the buffer itself."""
        return self.shape == self.buffer.shape and self.strides == strides_of(self.shape) and self.offset == Index()


@dataclass(frozen=True)
class Extern:
    """A torch call that stays one; ``args`` and ``kwargs`` hold StridedViews, Indices (sizes) and literals."""

    name: str
    target: str
    """Overload name: 'aten.mm.default'."""
    args: tuple[Any, ...]
    kwargs: Mapping[str, Any]
    outputs: tuple[Buffer | None, ...]
    """One buffer for each result; None for one that nobody reads."""
    several: bool = False
    """True if the call returns a tuple or list."""
    origins: tuple[str, ...] = ()

    @property
    def axes(self) -> tuple[Var, ...]:
        return ()


Operation: TypeAlias = Pointwise | Reduction | Product | Extern


@dataclass(frozen=True)
class SizeBinding:
    """Where a runtime size comes from: dimension ``dim`` of the input buffer named ``buffer``, over ``divisor``."""

    size: Size
    buffer: str
    dim: int
    divisor: int = 1
    """The kernels hold for sizes that it divides only."""


@dataclass(frozen=True)
class Program:
    """A reference as operations in data-flow order.

    ``outputs`` are buffers (role OUTPUT, or an INPUT/WEIGHT returned as it is) in the flat order of the result;
    ``dim_hints`` are the captured values of the runtime sizes.
    """

    inputs: tuple[Buffer, ...]
    weights: tuple[Buffer, ...]
    constants: tuple[Buffer, ...]
    operations: tuple[Operation, ...]
    outputs: tuple[Buffer, ...]
    sizes: tuple[SizeBinding, ...] = ()
    size_hints: Mapping[str, int] = field(default_factory=dict)

    def hint(self, index: Index) -> int:
        """The captured value of a size expression."""
        return index.evaluate(self.size_hints)


def read_buffers(operation: Operation) -> frozenset[Buffer]:
    """All buffers that an operation reads."""
    if isinstance(operation, Extern):
        return frozenset(v.buffer for v in _views((operation.args, dict(operation.kwargs))))
    found: set[Buffer] = set()
    for expr in expressions(operation):
        for e in walk(expr):
            if isinstance(e, Load):
                found.add(e.buffer)
            elif isinstance(e, Search):
                found.add(e.sorted)
    return frozenset(found)


def written_buffers(operation: Operation) -> tuple[Buffer, ...]:
    """All buffers that an operation writes."""
    if isinstance(operation, Extern):
        return tuple(b for b in operation.outputs if b is not None)
    if isinstance(operation, Reduction):
        return tuple(t.buffer for t in operation.targets)
    return (operation.target.buffer,)


def expressions(operation: Operation) -> tuple[Expr, ...]:
    """The scalar expressions of an operation."""
    if isinstance(operation, Pointwise):
        return (operation.value,)
    if isinstance(operation, Reduction):
        bounds = (operation.segment.begin, operation.segment.end) if operation.segment else ()
        return (operation.value, *bounds)
    if isinstance(operation, Product):
        return (operation.left, operation.right)
    return ()


def _views(value: Any) -> Iterator[StridedView]:
    if isinstance(value, StridedView):
        yield value
    elif isinstance(value, (list, tuple)):
        for item in value:
            yield from _views(item)
    elif isinstance(value, dict):
        yield from _views(list(value.values()))
