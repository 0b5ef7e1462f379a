"""Packing: a side of a product is first copied into the order in which the product walks it.

The weights of a convolution lie with their taps innermost, so that no block of channels is contiguous and each element
is a load of its own. They are few, and every image reads them again.
"""

from __future__ import annotations

from dataclasses import replace

from kernelevolve.operators.synthesis.buffer import Buffer, Role
from kernelevolve.operators.synthesis.emit.emitter import Traits
from kernelevolve.operators.synthesis.expr import Cast, Expr, Load
from kernelevolve.operators.synthesis.index import Index
from kernelevolve.operators.synthesis.ir import Operation, Pointwise, Product, Program, Target, split_contracted
from kernelevolve.operators.synthesis.layout import flatten, product_of
from kernelevolve.operators.synthesis.plan import Planner
from kernelevolve.operators.synthesis.rewrite.sink import stored_load

_WORTH = 64
"""Times that each element of the side must be used for its copy to pay."""


def sides_packed(program: Program, planner: Planner, traits: Traits) -> Program:
    """The program with copies of those left sides whose unrolled axes are innermost, if the planner wants that."""
    if not traits.packed_sides:
        return program
    operations: list[Operation] = []
    for operation in program.operations:
        packed = _packed(operation, program) if isinstance(operation, Product) else None
        if packed and planner.choose(f"left-side:{operation.name}", ("packed", "as-stored"), niche=True) == "packed":
            operations += packed
        else:
            operations.append(operation)
    return replace(program, operations=tuple(operations))


def _packed(product: Product, program: Program) -> tuple[Pointwise, Product] | None:
    load = stored_load(product.left)
    taps, long = split_contracted(product.contracted)
    if load is None or not taps or load.variables & {*product.batch, *product.columns}:
        return None
    offset = flatten(load.index, load.buffer.shape)
    if not any(offset.coefficient(tap) == Index.of(1) for tap in taps):
        return None
    axes = (*taps, *product.rows, *long)
    uses = program.hint(product_of(a.extent for a in (*product.batch, *product.columns)))
    if uses < _WORTH or load.variables != {*axes}:
        return None
    shape = tuple(a.extent for a in axes)
    buffer = Buffer(f"{product.name}_left", shape, load.buffer.dtype, Role.TEMPORARY)
    place = tuple(map(Index.of, axes))
    copy = Pointwise(buffer.name, axes, Target(buffer, place), load, product.origins)
    return copy, replace(product, left=_with(product.left, Load(buffer, place)))


def _with(side: Expr, load: Load) -> Expr:
    return Cast(_with(side.arg, load), side.dtype) if isinstance(side, Cast) else load
