"""Kernels without products: rows in parallel, or one flat loop where every point is a row."""

from __future__ import annotations

from kernelevolve.operators.synthesis.emit.cpp.collapse import collapsed_rows, is_pointwise
from kernelevolve.operators.synthesis.emit.cpp.function import Function
from kernelevolve.operators.synthesis.emit.cpp.nest import Scope, searches_in
from kernelevolve.operators.synthesis.emit.cpp.stream import Streamed, streamed
from kernelevolve.operators.synthesis.emit.cpp.sweeps import blocks, lane_body, sweep, write
from kernelevolve.operators.synthesis.emit.cpp.text import Text
from kernelevolve.operators.synthesis.index import Var
from kernelevolve.operators.synthesis.ir import Program
from kernelevolve.operators.synthesis.kernels import Assign, LoopKernel, Pass
from kernelevolve.operators.synthesis.layout import product_of
from kernelevolve.operators.synthesis.plan import Planner


def row_function(kernel: LoopKernel, program: Program, planner: Planner) -> Function:
    """The function of a kernel without products."""
    kernel = collapsed_rows(kernel)
    if is_pointwise(kernel):
        function = Function(kernel)
        _pointwise(function)
        return function
    collected, copies = streamed(kernel, program, planner)
    function = Function(kernel, collected)
    _rows(function, copies)
    return function


def _rows(function: Function, copies: tuple[Streamed, ...]) -> None:
    kernel, body = function.kernel, function.body
    row = function.row_scope(kernel.rows, "row", 2) if kernel.rows else Scope(function.names, Text(1), function.scope)
    function.declare_locals(row)
    for step in kernel.passes:
        assert isinstance(step, Pass)
        sweep(row, step)
    for copy in copies:
        size = f"sizeof({copy.local.name})"
        row.text.line(f"ke::stream({copy.buffer.name} + {row.index(copy.offset)}, {copy.local.name}, {size});")
    if not kernel.rows:
        body.extend(row.text)
        return
    ragged = any(isinstance(p, Pass) and p.segment is not None for p in kernel.passes)
    schedule = "schedule(dynamic, ROWS_PER_TASK)" if ragged else "schedule(static)"
    count = function.scope.index(product_of(r.extent for r in kernel.rows))
    body.line(f"#pragma omp parallel for {schedule}")
    body.line(f"for (int64_t row = 0; row < {count}; row++) {{")
    body.extend(row.text)
    body.line("}")


def _pointwise(function: Function) -> None:
    """Every point is a row: parallel over blocks of the last axis, vectorised within a block."""
    kernel, body = function.kernel, function.body
    assigns = tuple(a for p in kernel.passes if isinstance(p, Pass) for a in p.assigns)
    if not kernel.rows:
        scope = Scope(function.names, Text(1), function.scope, barrier=True)
        function.declare_locals(scope)
        _body(scope, assigns)
        body.extend(scope.text)
        return
    *outer, axis = kernel.rows
    count = function.scope.index(product_of(r.extent for r in outer))
    extent = function.scope.index(axis.extent)
    block = function.row_scope(outer, "row", 2) if outer else Scope(function.names, Text(2), function.scope)
    block.uses.clear()
    block.count(a.value for a in assigns)
    block.written |= {a.target.buffer for a in assigns}
    pieces = f"(({extent}) + CHUNK - 1) / CHUNK"
    body.line(f"const int64_t pieces = {pieces};")
    body.line("#pragma omp parallel for schedule(static)")
    body.line(f"for (int64_t task = 0; task < {count} * pieces; task++) {{")
    if outer:
        body.line("  const int64_t row = task / pieces;")
    body.line(f"  const int64_t begin = task % pieces * CHUNK, end = ke::lib::least<int64_t>(begin + CHUNK, {extent});")
    if searches_in(a.value for a in assigns):
        _searching(function, block, axis, assigns)
    else:
        inside = block.inner([axis])
        _declare_scalars(function, inside)
        for assign in assigns:
            write(inside, assign)
        block.text.line("#pragma omp simd")
        block.text.line(f"for (int64_t {axis.name} = begin; {axis.name} < end; {axis.name}++) {{")
        block.text.extend(inside.text)
        block.text.line("}")
    body.extend(block.text)
    body.line("}")


def _searching(function: Function, block: Scope, axis: Var, assigns: tuple[Assign, ...]) -> None:
    def body(scope: Scope, count: str) -> None:
        lane_body(scope, axis, count, assigns, declare=lambda inside: _declare_scalars(function, inside))

    blocks(block, axis, "begin", "end", body)


def _declare_scalars(function: Function, scope: Scope) -> None:
    """Scratch of a point: plain variables."""
    for buffer in function.kernel.locals:
        scope.storage.pop(buffer, None)
    function.declare_locals(scope)


def _body(scope: Scope, assigns: tuple[Assign, ...]) -> None:
    scope.uses.clear()
    scope.count(a.value for a in assigns)
    for assign in assigns:
        write(scope, assign)
