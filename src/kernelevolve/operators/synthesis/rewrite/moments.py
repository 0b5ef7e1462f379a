"""Moments: mean and spread in one sweep over the data, or in two."""

from __future__ import annotations

from dataclasses import replace

from kernelevolve.operators.synthesis.buffer import Buffer, Role
from kernelevolve.operators.synthesis.emit.emitter import Traits
from kernelevolve.operators.synthesis.expr import Cast, Const, Expr, IndexValue, Load, Op
from kernelevolve.operators.synthesis.index import Index
from kernelevolve.operators.synthesis.ir import Combine, Operation, Pointwise, Program, Reduction, Target
from kernelevolve.operators.synthesis.layout import product_of
from kernelevolve.operators.synthesis.plan import Planner


def moments_chosen(program: Program, planner: Planner, traits: Traits) -> Program:
    """The program with every reduction to moments kept, or taken apart into a sum and a sum of squared distances."""
    operations: list[Operation] = []
    for operation in program.operations:
        if isinstance(operation, Reduction) and operation.combine is Combine.MOMENTS:
            ways = ("two-sweeps", "one-sweep") if traits.moments else ("two-sweeps",)
            if planner.choose(f"moments:{operation.name}", ways, niche=True) == "two-sweeps":
                operations += _two_sweeps(operation)
                continue
        operations.append(operation)
    return replace(program, operations=tuple(operations))


def _two_sweeps(operation: Reduction) -> list[Operation]:
    mean, squares = operation.targets
    total = Buffer(f"{operation.name}_total", mean.buffer.shape, mean.buffer.dtype, Role.TEMPORARY)
    dtype = mean.buffer.dtype
    sum_up = replace(operation, name=total.name, combine=Combine.SUM, targets=(Target(total, mean.index),))
    count = product_of(v.extent for v in operation.reduced)
    average = Op("div", (Load(total, mean.index), _number(count, dtype)), dtype)
    centre = Pointwise(mean.buffer.name, operation.axes, mean, average, operation.origins)
    distance = Op("sub", (operation.value, Load(mean.buffer, mean.index)), dtype)
    spread = replace(
        operation, name=squares.buffer.name, combine=Combine.SUM, targets=(squares,),
        value=Op("mul", (distance, distance), dtype),
    )  # fmt: skip
    return [sum_up, centre, spread]


def _number(count: Index, dtype: str) -> Expr:
    if count.constant is not None:
        return Const(float(count.constant), dtype)
    return Cast(IndexValue(count, "int64"), dtype)
