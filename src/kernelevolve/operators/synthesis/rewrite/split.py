"""Splitting: a reduction to few values is done in pieces side by side, then over the pieces."""

from __future__ import annotations

from dataclasses import replace

from kernelevolve.operators.synthesis.buffer import Buffer, Role
from kernelevolve.operators.synthesis.emit.emitter import Traits
from kernelevolve.operators.synthesis.expr import Load
from kernelevolve.operators.synthesis.index import Index, Var
from kernelevolve.operators.synthesis.ir import Combine, Operation, Program, Reduction, Target
from kernelevolve.operators.synthesis.layout import product_of
from kernelevolve.operators.synthesis.plan import Planner

_FEW_RESULTS = 8
"""Results from which on there are rows enough to share among threads."""
_MANY_VALUES = 1 << 15
"""Values a result below which sharing costs more than it saves."""
_PIECE = 1 << 14
_SIMPLE = frozenset({Combine.SUM, Combine.PROD, Combine.MAX, Combine.MIN, Combine.ANY, Combine.ALL})


def long_reductions_split(program: Program, planner: Planner, traits: Traits) -> Program:
    """The program with each long reduction to few values in two stages, if the planner wants that."""
    operations: list[Operation] = []
    for operation in program.operations:
        stages = _stages(operation, program) if isinstance(operation, Reduction) else None
        if stages is not None and planner.choose(f"split:{operation.name}", ("pieces", "whole")) == "pieces":
            operations += stages
        else:
            operations.append(operation)
    return replace(program, operations=tuple(operations))


def _stages(reduction: Reduction, program: Program) -> tuple[Reduction, Reduction] | None:
    results = program.hint(product_of(a.extent for a in reduction.axes))
    values = program.hint(product_of(a.extent for a in reduction.reduced))
    if reduction.segment is not None or reduction.combine not in _SIMPLE:
        return None
    if results > _FEW_RESULTS or values < _MANY_VALUES:
        return None
    if len(reduction.reduced) > 1:
        outer, inner = reduction.reduced[:1], reduction.reduced[1:]
        value = reduction.value
    else:
        (axis,) = reduction.reduced
        piece = _piece_of(axis.extent)
        if piece is None:
            return None
        first, second = Var(f"{axis.name}_piece", axis.extent // piece), Var(f"{axis.name}_at", Index.of(piece))
        outer, inner = (first,), (second,)
        value = reduction.value.substitute({axis: Index.of(first) * piece + second})
    (target,) = reduction.targets
    kept = (*reduction.axes, *outer)
    dtype = reduction.value.dtype
    partial = Buffer(f"{reduction.name}_pieces", tuple(a.extent for a in kept), dtype, Role.TEMPORARY)
    place = tuple(Index.of(a) for a in kept)
    return (
        replace(reduction, name=partial.name, axes=kept, reduced=inner, value=value, targets=(Target(partial, place),)),
        replace(reduction, reduced=outer, value=Load(partial, place), targets=(target,)),
    )


def _piece_of(extent: Index) -> int | None:
    """The largest divisor of an extent that is no longer than a piece should be."""
    if extent.constant is None:
        return None
    return next((p for p in range(min(_PIECE, extent.constant // 2), 511, -1) if extent.constant % p == 0), None)
