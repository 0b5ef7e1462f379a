"""Products: each is a loop nest of ours or a call of the library, which is a decision."""

from __future__ import annotations

from dataclasses import replace

from kernelevolve.operators.synthesis.emit.emitter import Traits
from kernelevolve.operators.synthesis.ir import Operation, Product, Program
from kernelevolve.operators.synthesis.plan import Planner


def products_chosen(program: Program, planner: Planner, traits: Traits) -> Program:
    """The program with every product settled as a loop nest or a torch call."""
    return replace(program, operations=tuple(_chosen(o, planner, traits) for o in program.operations))


def _chosen(operation: Operation, planner: Planner, traits: Traits) -> Operation:
    if not isinstance(operation, Product) or operation.library is None:
        return operation
    options = traits.products
    if len(operation.columns) > 1:
        # A convolution in two or three dimensions: libraries have special algorithms, a panel of columns is scattered.
        options = tuple(sorted(options, key=lambda option: option != "library"))
    answer = planner.choose(f"product:{operation.name}", options, niche=True)
    return operation.library if answer == "library" else replace(operation, library=None)
