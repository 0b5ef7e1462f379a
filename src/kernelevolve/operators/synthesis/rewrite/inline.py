"""Inlining: a value is computed where it is read, instead of being written and read back."""

from __future__ import annotations

from dataclasses import replace

from kernelevolve.operators.synthesis.buffer import Buffer, Role
from kernelevolve.operators.synthesis.emit.emitter import Traits
from kernelevolve.operators.synthesis.expr import Cast, Const, Expr, Load, Op, Search
from kernelevolve.operators.synthesis.index import Index, Var
from kernelevolve.operators.synthesis.ir import (
    Extern,
    Operation,
    Pointwise,
    Product,
    Program,
    Reduction,
    expressions,
    read_buffers,
    written_buffers,
)
from kernelevolve.operators.synthesis.layout import product_of
from kernelevolve.operators.synthesis.plan import Planner
from kernelevolve.operators.synthesis.traversal import rebuild, rebuild_index, walk

_COSTS = {"div": 4, "sqrt": 4, "rsqrt": 6, "remainder": 6, "fmod": 6, "floor_divide": 6, "trunc_divide": 6, "pow": 40}
_CHEAP = frozenset(
    [
        "add",
        "sub",
        "mul",
        "neg",
        "abs",
        "maximum",
        "minimum",
        "eq",
        "ne",
        "lt",
        "le",
        "gt",
        "ge",
        "and",
        "or",
        "xor",
        "not",
        "where",
        "fma",
        "floor",
        "ceil",
        "trunc",
        "isnan",
        "isinf",
    ]
)
_LARGEST = 80
"""Nodes of an expression beyond which nothing more is put into it."""


def inlined(program: Program, planner: Planner, traits: Traits) -> Program:
    """The program without temporaries that are better computed where they are read.

    A value with one reader is computed there; one with several readers if it is cheap. Where it is neither cheap nor
    read by one, keeping or computing again is a decision.
    """
    operations = list(program.operations)
    writers: dict[Buffer, int] = {}
    for operation in operations:
        for buffer in written_buffers(operation):
            writers[buffer] = writers.get(buffer, 0) + 1
    position = 0
    while position < len(operations):
        operation = operations[position]
        if isinstance(operation, Pointwise) and writers[operation.target.buffer] == 1:
            readers = [n for n, o in enumerate(operations) if operation.target.buffer in read_buffers(o)]
            if _worth_inlining(operation, [operations[n] for n in readers], program, planner, traits):
                for n in readers:
                    operations[n] = put_into(operations[n], operation)
                del operations[position]
                continue
        position += 1
    return replace(program, operations=tuple(operations))


def _worth_inlining(
    operation: Pointwise, readers: list[Operation], program: Program, planner: Planner, traits: Traits
) -> bool:
    if operation.target.buffer.role is not Role.TEMPORARY or not _is_plain(operation) or not readers:
        return False
    if any(isinstance(r, Extern) or _searches(r, operation.target.buffer) for r in readers):
        return False
    size = sum(1 for _ in walk(operation.value))
    if any(size * _uses(r, operation.target.buffer) + _size(r) > _LARGEST for r in readers):
        return False
    cost = cost_of(operation.value)
    if cost == 0:
        return True
    if cost > 4 and any(_again(operation, r) for r in readers):
        return False
    if len(readers) == 1:
        return True
    if cost <= 4 and sum(1 for e in walk(operation.value) if isinstance(e, Load)) <= 2:
        return True
    options = ("keep", "recompute")
    if any(program.hint(product_of(v.extent for v in _reduced(r))) > traits.row_elements for r in readers):
        options = ("recompute", "keep")  # Too long to be kept in the row: it would go through memory, and back.
    return planner.choose(f"value:{operation.name}", options, niche=True) == "recompute"


def _reduced(reader: Operation) -> tuple[Var, ...]:
    return reader.reduced if isinstance(reader, Reduction) else ()


def _is_plain(operation: Pointwise) -> bool:
    """True if it writes its whole buffer, each axis to a dimension of its own."""
    buffer = operation.target.buffer
    seen: set[Var] = set()
    for index, size in zip(operation.target.index, buffer.shape, strict=True):
        if size.constant == 1 and index == Index():
            continue
        variable = index.variable
        if variable is None or variable.extent != size or variable in seen:
            return False
        seen.add(variable)
    return True


def _again(operation: Pointwise, reader: Operation) -> bool:
    """True if the reader would compute a value many times over that it cannot hoist out of its innermost loop."""
    if isinstance(reader, Product):
        # A side is read once a block of the other; the copy into a tile makes that cheap only for cheap values.
        return True
    points = product_of(v.extent for v in (*_axes(reader), *getattr(reader, "reduced", ())))
    made = product_of(v.extent for v in operation.axes)
    if points == made:
        return False
    if points.constant is not None and made.constant is not None and points.constant <= made.constant:
        return False
    innermost = _innermost(reader)
    for expr in expressions(reader):
        for e in walk(expr):
            if isinstance(e, Load) and e.buffer == operation.target.buffer and innermost in e.variables:
                return True
    return False


def _innermost(reader: Operation) -> Var | None:
    axes = (*_axes(reader), *getattr(reader, "reduced", ()))
    return axes[-1] if axes else None


def _axes(operation: Operation) -> tuple[Var, ...]:
    return operation.axes


def _searches(reader: Operation, buffer: Buffer) -> bool:
    return any(isinstance(e, Search) and e.sorted == buffer for x in expressions(reader) for e in walk(x))


def _uses(reader: Operation, buffer: Buffer) -> int:
    return sum(1 for x in expressions(reader) for e in walk(x) if isinstance(e, Load) and e.buffer == buffer)


def _size(reader: Operation) -> int:
    return sum(1 for x in expressions(reader) for _ in walk(x))


def cost_of(expr: Expr) -> int:
    """Roughly the cycles a vector of values costs: 1 for an addition, 20 for an exponential; loads are free."""
    total = 0
    for e in walk(expr):
        if isinstance(e, Op):
            total += 1 if e.name in _CHEAP else _COSTS.get(e.name, 20)
        elif isinstance(e, Search):
            total += 60
    return total


def put_into(reader: Operation, operation: Pointwise) -> Operation:
    """The reader with every load of the operation's buffer replaced by the value."""
    buffer = operation.target.buffer
    axes = [i.variable for i in operation.target.index]

    def leaf(expr: Expr) -> Expr | None:
        if not isinstance(expr, Load) or expr.buffer != buffer:
            return None
        index = tuple(rebuild_index(i, leaf) for i in expr.index)
        mapping = {a: i for a, i in zip(axes, index, strict=True) if a is not None}
        return operation.value.substitute(mapping)

    def new(expr: Expr) -> Expr:
        return rebuild(expr, leaf)

    origins = tuple(dict.fromkeys((*operation.origins, *reader.origins)))
    if isinstance(reader, Pointwise):
        return replace(reader, value=new(reader.value), origins=origins)
    if isinstance(reader, Reduction):
        segment = reader.segment
        if segment is not None:
            segment = replace(segment, begin=new(segment.begin), end=new(segment.end))
        return replace(reader, value=new(reader.value), segment=segment, origins=origins)
    assert isinstance(reader, Product)
    return replace(reader, left=new(reader.left), right=new(reader.right), origins=origins)


def is_literal(expr: Expr) -> bool:
    """True for a constant, possibly converted."""
    return isinstance(expr, Const) or (isinstance(expr, Cast) and is_literal(expr.arg))
