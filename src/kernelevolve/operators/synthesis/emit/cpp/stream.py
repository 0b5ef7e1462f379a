"""Streaming stores: a row of results is collected on the stack and written past the caches when it is complete.

A store to memory that is not cached costs a read of the line first. Where results are larger than the caches, or are
not read soon, writing whole lines directly saves that read. Whether it pays is a decision for each kernel.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from kernelevolve.operators.synthesis.buffer import Buffer, Role
from kernelevolve.operators.synthesis.dtype import ITEM_BYTES
from kernelevolve.operators.synthesis.emit.cpp.collapse import collapsed_pass
from kernelevolve.operators.synthesis.expr import Expr, Load
from kernelevolve.operators.synthesis.index import Index
from kernelevolve.operators.synthesis.ir import Program, Target
from kernelevolve.operators.synthesis.kernels import Accumulate, Assign, LoopKernel, Pass, targets_of
from kernelevolve.operators.synthesis.layout import flatten, product_of, strides_of
from kernelevolve.operators.synthesis.plan import Planner
from kernelevolve.operators.synthesis.traversal import rebuild, rebuild_index

_LARGEST_ROW = 1 << 15
"""Bytes of a row that may be collected on the stack: what a first-level cache holds beside the inputs."""
_WORTHWHILE = 1 << 26
"""Bytes of results from which streaming is the default: more than a last-level cache keeps."""


@dataclass(frozen=True)
class Streamed:
    """A row of ``local`` is copied to ``buffer`` at ``offset`` elements when the row is done."""

    buffer: Buffer
    local: Buffer
    offset: Index


def streamed(kernel: LoopKernel, program: Program, planner: Planner) -> tuple[LoopKernel, tuple[Streamed, ...]]:
    """The kernel with contiguous rows of results collected, if the planner wants that, and what is to be copied."""
    found = [s for b in kernel.writes() if (s := _row_of(kernel, b)) is not None]
    if not kernel.rows or not found:
        return kernel, ()
    total = sum(program.hint(s.buffer.numel) * ITEM_BYTES[s.buffer.dtype] for s in found)
    options = ("streaming", "cached") if total >= _WORTHWHILE else ("cached", "streaming")
    if planner.choose(f"store:{kernel.name}", options, niche=True) == "cached":
        return kernel, ()
    exchange = {s.buffer: s for s in found}
    passes = tuple(_collected(p, exchange) for p in kernel.passes if isinstance(p, Pass))
    local = (*kernel.locals, *(s.local for s in found))
    return replace(kernel, passes=passes, locals=local), tuple(found)


def _row_of(kernel: LoopKernel, buffer: Buffer) -> Streamed | None:
    """How a buffer is written: None unless every row writes one contiguous piece of it, of a known size."""
    offsets: set[Index] = set()
    shapes: set[tuple[Index, ...]] = set()
    for step in kernel.passes:
        if not isinstance(step, Pass):
            return None
        for target in targets_of(collapsed_pass(step)):
            if target.buffer != buffer:
                continue
            axes = collapsed_pass(step).axes
            loops = (*axes, *collapsed_pass(step).reduced)
            offset = flatten(target.index, buffer.shape)
            inner = [v for v in loops if v in offset.variables]
            place = flatten(tuple(Index.of(v) for v in inner), tuple(v.extent for v in inner))
            start = offset - place
            if start.variables - set(kernel.rows):
                return None
            offsets.add(start)
            shapes.add(tuple(v.extent for v in inner))
    if len(offsets) != 1 or len(shapes) != 1:
        return None
    (offset,), (shape,) = offsets, shapes
    count = product_of(shape).constant
    bytes_of_row = (count or 0) * ITEM_BYTES[buffer.dtype]
    if not 64 <= bytes_of_row <= _LARGEST_ROW:
        return None
    return Streamed(buffer, Buffer(f"{buffer.name}_row", (Index.of(count or 0),), buffer.dtype, Role.ROW), offset)


def _collected(step: Pass, exchange: dict[Buffer, Streamed]) -> Pass:
    """The pass writing to, and reading from, the collected rows."""

    def place(buffer: Buffer, index: tuple[Index, ...]) -> tuple[Index, ...]:
        offset = Index()
        for i, stride in zip(index, strides_of(buffer.shape), strict=True):
            offset = offset + i * stride
        return (offset - exchange[buffer].offset,)

    def leaf(expr: Expr) -> Expr | None:
        if isinstance(expr, Load) and expr.buffer in exchange:
            index = tuple(rebuild_index(i, leaf) for i in expr.index)
            return Load(exchange[expr.buffer].local, place(expr.buffer, index))
        return None

    def target(value: Target) -> Target:
        if value.buffer not in exchange:
            return value
        return Target(exchange[value.buffer].local, place(value.buffer, value.index))

    return replace(
        step,
        assigns=tuple(Assign(target(a.target), rebuild(a.value, leaf)) for a in step.assigns),
        accumulates=tuple(
            Accumulate(tuple(map(target, a.targets)), a.combine, rebuild(a.value, leaf)) for a in step.accumulates
        ),
    )
