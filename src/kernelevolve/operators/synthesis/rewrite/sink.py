"""Sinking: a result that is only copied elsewhere is written there at once."""

from __future__ import annotations

from dataclasses import replace

from kernelevolve.operators.synthesis.buffer import Buffer, Role
from kernelevolve.operators.synthesis.emit.emitter import Traits
from kernelevolve.operators.synthesis.expr import Cast, Expr, Load
from kernelevolve.operators.synthesis.fuse.solve import solve
from kernelevolve.operators.synthesis.index import Index, Var
from kernelevolve.operators.synthesis.ir import (
    Extern,
    Operation,
    Pointwise,
    Program,
    Reduction,
    Target,
    read_buffers,
    written_buffers,
)
from kernelevolve.operators.synthesis.layout import product_of
from kernelevolve.operators.synthesis.plan import Planner


def copies_sunk(program: Program, planner: Planner, traits: Traits) -> Program:
    """The program without copies of results: a transposed, reshaped or concatenated result is written in place.

    The copy must read every element of the result exactly once, and be its only reader.
    """
    operations = list(program.operations)
    position = 0
    while position < len(operations):
        copy = operations[position]
        load = stored_load(copy.value) if isinstance(copy, Pointwise) else None
        moved = _sunk(operations, copy, load.buffer) if isinstance(copy, Pointwise) and load is not None else None
        if moved is None:
            position += 1
        else:
            operations = [o for o in moved if o is not copy]
    return replace(program, operations=tuple(operations))


def _sunk(operations: list[Operation], copy: Pointwise, buffer: Buffer) -> list[Operation] | None:
    """The operations with every writer of a buffer writing where the copy puts it; None if that cannot be."""
    if buffer.role is not Role.TEMPORARY:
        return None
    moved: list[Operation] = []
    for operation in operations:
        if operation is not copy and buffer in read_buffers(operation):
            return None
        if buffer not in written_buffers(operation):
            moved.append(operation)
            continue
        if isinstance(operation, Extern) or (isinstance(operation, Reduction) and len(operation.targets) != 1):
            return None
        target = _composed(operation.targets[0] if isinstance(operation, Reduction) else operation.target, copy)
        if target is None:
            return None
        origins = tuple(dict.fromkeys((*operation.origins, *copy.origins)))
        if isinstance(operation, Reduction):
            moved.append(replace(operation, targets=(target,), origins=origins))
        else:
            moved.append(replace(operation, target=target, origins=origins))
    return moved


def stored_load(expr: Expr) -> Load | None:
    """The load that a value consists of, apart from conversions; None if it is more than that."""
    while isinstance(expr, Cast):
        expr = expr.arg
    return expr if isinstance(expr, Load) else None


def _composed(target: Target, copy: Pointwise) -> Target | None:
    """Where the copy puts what is written to ``target``."""
    load = stored_load(copy.value)
    assert load is not None
    points = product_of(a.extent for a in copy.axes)
    if points != target.buffer.numel:
        return None
    places = [Index.of(Var(f"q{d}", s)) for d, s in enumerate(target.buffer.shape)]
    equations = [(i, p if i.variables else i) for i, p in zip(load.index, places, strict=True)]
    solution = solve(equations, copy.axes)
    if solution is None or set(solution) != set(copy.axes):
        return None
    exact = {p.variable: i for p, i in zip(places, target.index, strict=True) if p.variable is not None}
    return Target(copy.target.buffer, tuple(i.substitute(solution).substitute(exact) for i in copy.target.index))
