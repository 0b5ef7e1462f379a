"""Rewrites: algebra on programs, each a file with one idea, applied in a fixed order.

A rewrite takes a program and the planner and returns a program that computes the same. Where it pays only sometimes it
asks the planner.
"""

from __future__ import annotations

from collections.abc import Callable

from kernelevolve.operators.synthesis.emit.emitter import Traits
from kernelevolve.operators.synthesis.ir import Program
from kernelevolve.operators.synthesis.plan import Planner
from kernelevolve.operators.synthesis.rewrite.associate import chains_associated
from kernelevolve.operators.synthesis.rewrite.dead import without_dead_operations
from kernelevolve.operators.synthesis.rewrite.inline import inlined
from kernelevolve.operators.synthesis.rewrite.moments import moments_chosen
from kernelevolve.operators.synthesis.rewrite.pack import sides_packed
from kernelevolve.operators.synthesis.rewrite.products import products_chosen
from kernelevolve.operators.synthesis.rewrite.sink import copies_sunk
from kernelevolve.operators.synthesis.rewrite.split import long_reductions_split
from kernelevolve.operators.synthesis.rewrite.stack import alike_stacked

Rewrite = Callable[[Program, Planner, Traits], Program]

REWRITES: tuple[Rewrite, ...] = (
    chains_associated,
    products_chosen,
    moments_chosen,
    without_dead_operations,
    inlined,
    without_dead_operations,
    copies_sunk,
    alike_stacked,
    long_reductions_split,
    sides_packed,
)


def rewritten(program: Program, planner: Planner, traits: Traits) -> Program:
    """The program after all rewrites."""
    for rewrite in REWRITES:
        program = rewrite(program, planner, traits)
    return program
