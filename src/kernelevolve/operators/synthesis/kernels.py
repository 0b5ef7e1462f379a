"""The scheduled form: operations grouped into kernels, each a parallel loop over rows with passes over a row.

    parallel for row in kernel.rows:            # one point of the row axes
        for each pass, in order:
            for point in pass.axes x pass.reduced:
                assignments and accumulations

What one pass writes to a ROW buffer, later passes of the same row read. A ROW buffer has the shape of the pass axes it
was written over, its index holds no row axis, and it lives in registers, a stack array or a tile, as the emitter
likes. An emitter may process several neighbouring rows (of the last row axis) at a time: all row-local state is
independent between rows.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TypeAlias

from kernelevolve.operators.synthesis.buffer import Buffer, Role
from kernelevolve.operators.synthesis.expr import Expr, Load, Search
from kernelevolve.operators.synthesis.index import Var
from kernelevolve.operators.synthesis.ir import Combine, Extern, Program, Segment, Target
from kernelevolve.operators.synthesis.traversal import walk


@dataclass(frozen=True)
class Assign:
    """``target = value`` at a point of the pass (at every point of its axes; it does not use the reduced ones
    unless the target does). The target is a global buffer (TEMPORARY or OUTPUT) or a ROW buffer."""

    target: Target
    value: Expr


@dataclass(frozen=True)
class Accumulate:
    """``targets = combine over pass.reduced of value`` at every point of the axes of the pass."""

    targets: tuple[Target, ...]
    combine: Combine
    value: Expr


@dataclass(frozen=True)
class Pass:
    """One sweep over a row. With no axes and no reduced axes it is scalar code, done once a row.

    ``axes`` are kept, ``reduced`` are summed away; ``segment`` gives run-time bounds to one of the reduced axes.
    Assignments come in an order in which each may read what earlier ones wrote at the same point. Accumulated targets
    are readable from the next pass on.
    """

    axes: tuple[Var, ...]
    reduced: tuple[Var, ...]
    assigns: tuple[Assign, ...]
    accumulates: tuple[Accumulate, ...] = ()
    segment: Segment | None = None


@dataclass(frozen=True)
class ProductPass:
    """A matrix product within a row: ``target[columns] = sum over contracted of left * right``.

    ``left`` depends on the row axes and the contracted ones; ``right`` on the columns, the contracted ones and those
    row axes that are batches. Neighbouring rows share ``right``, so an emitter wants to take many at a time.
    ``shared`` are the row axes on which ``right`` does not depend; the last row axis is one of them.
    """

    columns: tuple[Var, ...]
    contracted: tuple[Var, ...]
    left: Expr
    right: Expr
    target: Target
    shared: tuple[Var, ...]


@dataclass(frozen=True)
class LoopKernel:
    """A parallel loop over rows. ``rows`` may be empty (one row: parallelism is then inside the passes)."""

    name: str
    rows: tuple[Var, ...]
    passes: tuple[Pass | ProductPass, ...]
    locals: tuple[Buffer, ...]
    """The ROW buffers; a scalar of the row has shape ()."""
    origins: tuple[str, ...]
    """ATen nodes computed here, for the comment above the kernel."""
    title: str = ""
    """What it computes in a few words, e.g. 'add, mean, rsqrt, mul'."""

    @property
    def has_product(self) -> bool:
        """True if some pass is a matrix product."""
        return any(isinstance(p, ProductPass) for p in self.passes)

    def reads(self) -> tuple[Buffer, ...]:
        """Global buffers read, in order of first use; a family counts as one buffer."""
        found: dict[Buffer, None] = {}
        for expr in self.expressions():
            for e in walk(expr):
                buffer = e.buffer if isinstance(e, Load) else e.sorted if isinstance(e, Search) else None
                if buffer is not None and buffer.role is not Role.ROW:
                    found.setdefault(buffer)
        return tuple(found)

    def writes(self) -> tuple[Buffer, ...]:
        """Global buffers written, in order."""
        found: dict[Buffer, None] = {}
        for step in self.passes:
            for target in targets_of(step):
                if target.buffer.role is not Role.ROW:
                    found.setdefault(target.buffer)
        return tuple(found)

    def expressions(self) -> Iterator[Expr]:
        """All scalar expressions, those inside target indices excluded."""
        for step in self.passes:
            if isinstance(step, ProductPass):
                yield step.left
                yield step.right
                continue
            if step.segment is not None:
                yield step.segment.begin
                yield step.segment.end
            yield from (a.value for a in step.assigns)
            yield from (a.value for a in step.accumulates)


Step: TypeAlias = LoopKernel | Extern


@dataclass(frozen=True)
class Schedule:
    """A program as the steps that compute it, in order. Buffers not listed in the program are temporaries."""

    program: Program
    steps: tuple[Step, ...]
    notes: tuple[str, ...] = ()
    """What is not a generated kernel, e.g. 'aten.bmm calls the library'."""

    @property
    def kernels(self) -> tuple[LoopKernel, ...]:
        """The generated kernels."""
        return tuple(s for s in self.steps if isinstance(s, LoopKernel))


def targets_of(step: Pass | ProductPass) -> tuple[Target, ...]:
    """Everything that a pass writes."""
    if isinstance(step, ProductPass):
        return (step.target,)
    return (*(a.target for a in step.assigns), *(t for a in step.accumulates for t in a.targets))
