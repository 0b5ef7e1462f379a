"""Products: each is a loop nest of ours or a call of the library, which is a decision."""

from __future__ import annotations

from dataclasses import replace

from kernelevolve.operators.synthesis.emit.emitter import Traits
from kernelevolve.operators.synthesis.expr import Op
from kernelevolve.operators.synthesis.ir import Combine, Operation, Pointwise, Product, Program, Reduction
from kernelevolve.operators.synthesis.layout import product_of
from kernelevolve.operators.synthesis.plan import Planner


def products_chosen(program: Program, planner: Planner, traits: Traits) -> Program:
    """The program with every product settled as a loop nest or a torch call."""
    return replace(program, operations=tuple(_chosen(o, program, planner, traits) for o in program.operations))


def _chosen(operation: Operation, program: Program, planner: Planner, traits: Traits) -> Operation:
    if not isinstance(operation, Product) or operation.library is None:
        return operation
    options = traits.products
    length = program.hint(product_of(a.extent for a in operation.contracted))
    if len(operation.columns) > 1 or length > traits.longest_sum:
        # A convolution in two or three dimensions: libraries have special algorithms, a panel of columns is scattered.
        # A long sum: what fusion saves of an element's traffic is little beside what the library saves in adding it up.
        options = tuple(sorted(options, key=lambda option: option != "library"))
    answer = planner.choose(f"product:{operation.name}", options, niche=True)
    if answer == "library":
        return operation.library
    if operation.rows and operation.columns and operation.contracted:
        return replace(operation, library=None)
    return _without_blocks(operation)


def _without_blocks(product: Product) -> Operation:
    """A product with a vector: nothing is used twice, so it is a reduction (or, with one term a sum, pointwise)."""
    value = Op("mul", (product.left, product.right), product.left.dtype)
    if not product.contracted:
        return Pointwise(product.name, product.axes, product.target, value, product.origins)
    return Reduction(
        product.name, product.axes, product.contracted, Combine.SUM, value, (product.target,), origins=product.origins
    )
