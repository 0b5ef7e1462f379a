"""Sinking: a result that is only copied elsewhere is written there at once."""

from __future__ import annotations

from dataclasses import replace

from kernelevolve.operators.synthesis.emit.emitter import Traits
from kernelevolve.operators.synthesis.expr import Cast, Expr, Load, Role
from kernelevolve.operators.synthesis.fuse.solve import solve
from kernelevolve.operators.synthesis.index import Index, Var, product_of
from kernelevolve.operators.synthesis.ir import Operation, Pointwise, Program, Reduction, Target, read_buffers
from kernelevolve.operators.synthesis.plan import Planner


def copies_sunk(program: Program, planner: Planner, traits: Traits) -> Program:
    """The program without copies of the results of reductions: a transposed or concatenated result is written in place.

    The copy must read every element of the result exactly once.
    """
    operations = list(program.operations)
    position = 0
    while position < len(operations):
        reduction = operations[position]
        place = _only_copy(operations, reduction) if isinstance(reduction, Reduction) else None
        if place is not None:
            copy = operations[place]
            assert isinstance(reduction, Reduction) and isinstance(copy, Pointwise)
            target = _composed(reduction.targets[0], copy)
            if target is not None:
                origins = tuple(dict.fromkeys((*reduction.origins, *copy.origins)))
                operations[position] = replace(reduction, targets=(target,), origins=origins)
                del operations[place]
                continue
        position += 1
    return replace(program, operations=tuple(operations))


def _only_copy(operations: list[Operation], reduction: Reduction) -> int | None:
    """Where the only reader of a reduction's only result stands, if that is a plain copy."""
    if len(reduction.targets) != 1:
        return None
    buffer = reduction.targets[0].buffer
    readers = [n for n, o in enumerate(operations) if buffer in read_buffers(o)]
    if buffer.role is not Role.TEMPORARY or len(readers) != 1:
        return None
    reader = operations[readers[0]]
    if not isinstance(reader, Pointwise):
        return None
    load = _copied(reader.value)
    return readers[0] if load is not None and load.buffer == buffer else None


def _copied(expr: Expr) -> Load | None:
    while isinstance(expr, Cast):
        expr = expr.arg
    return expr if isinstance(expr, Load) else None


def _composed(target: Target, copy: Pointwise) -> Target | None:
    """Where the copy puts what the reduction writes to ``target``."""
    load = _copied(copy.value)
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
