"""Kernels without a matrix product: a program takes a tile of rows and makes the passes over them."""

from __future__ import annotations

from collections.abc import Mapping

from kernelevolve.operators.synthesis.emit.emitter import Inexpressible
from kernelevolve.operators.synthesis.emit.triton.passes import Columns, PassWriter
from kernelevolve.operators.synthesis.emit.triton.scope import Body, Scope, tile_width
from kernelevolve.operators.synthesis.emit.triton.tile import (
    KernelText,
    define,
    extent_of,
    launch,
    needs_wide_positions,
    python_text,
    row_scope,
    span_arguments,
)
from kernelevolve.operators.synthesis.kernels import LoopKernel, Pass

LONGEST_ROW = 8192
"""Elements of a row that is kept in registers as a whole."""


def write_row_kernel(kernel: LoopKernel, hints: Mapping[str, int]) -> KernelText:
    """The text of a kernel. Raises Inexpressible."""
    passes = [step for step in kernel.passes if isinstance(step, Pass)]
    flat = all(not p.axes and not p.reduced for p in passes)
    crossed = any(p.axes and p.reduced for p in passes)
    segmented = any(p.segment is not None for p in passes)
    widths = [extent_of(p.axes or p.reduced) for p in passes if (p.axes or p.reduced) and not p.segment]
    widths += [extent_of(p.axes) for p in passes if p.axes and p.segment]
    longest = max((w.evaluate(hints) for w in widths), default=1)
    whole = longest <= LONGEST_ROW
    if not whole and (crossed or any(b.shape for b in kernel.locals)):
        raise Inexpressible("rows too long to be kept in registers")
    single = crossed or not kernel.rows
    tile = tile_width(longest)
    name = kernel.name.upper()
    body = Body()
    columns = Columns(None if whole else "COLUMNS", "UNROLL" if crossed or segmented else None)
    writer = PassWriter(body, _open(kernel, body, hints, single=single, flat=flat), columns, flat)
    for step in passes:
        writer.write(step)
        writer.publish(step)
    tunables, constants = _tunables(name, flat=flat, single=single, columns=columns, tile=tile)
    count = python_text(extent_of(kernel.rows))
    grid = (count if single else f'triton.cdiv({count}, CONFIG["{name}_ROWS"])',)
    values = {c: f'CONFIG["{name}_{c}"]' for c in constants if c != "ROWS" or not single}
    if single:
        values = {"ROWS": "1", **values}
    values |= span_arguments(body)
    values["num_warps"] = f'CONFIG["{name}_WARPS"]'
    limit = 4 * LONGEST_ROW
    constraints = () if single or flat or not whole else (f"{name}_ROWS * {tile} <= {limit}",)
    names = ("ROWS", *(c for c in constants if c != "ROWS"), *body.spans.values())
    return KernelText(define(kernel, body, names), launch(kernel, body, grid, values), tunables, constraints)


def _open(kernel: LoopKernel, body: Body, hints: Mapping[str, int], *, single: bool, flat: bool) -> Scope:
    """The rows of a program: one, or a tile."""
    if not kernel.rows:
        return Scope(body, {}, {})
    wide = ".to(tl.int64)" if needs_wide_positions(kernel, hints) else ""
    outside = Scope(body, {}, {})
    if single:
        body.line(f"row = tl.program_id(0){wide}")
        mask = ""
    else:
        shape = "" if flat else "[:, None]"
        body.line(f"row = tl.program_id(0){wide} * ROWS + tl.arange(0, ROWS){shape}")
        body.line(f"inside = row < {outside.index(extent_of(kernel.rows))}")
        mask = "inside"
    return Scope(body, *row_scope(body, kernel.rows, "row", mask))


def _tunables(
    name: str, *, flat: bool, single: bool, columns: Columns, tile: int
) -> tuple[dict[str, str], tuple[str, ...]]:
    """Declarations, and the constexpr names that they set."""
    found: dict[str, str] = {}
    if flat and not single:
        found["ROWS"] = "PowerOfTwo(64, 4096, 512)"
    elif not single:
        most = max(1, min(64, 4 * LONGEST_ROW // tile)) if columns.chunk is None else 8
        start = max(1, min(most, 2048 // tile)) if columns.chunk is None else 1
        found["ROWS"] = f"PowerOfTwo(1, {most}, {start})"
    if columns.chunk is not None:
        found["COLUMNS"] = "PowerOfTwo(256, 8192, 2048)"
    if columns.unroll is not None:
        found["UNROLL"] = "PowerOfTwo(1, 32, 8)"
    constants = tuple(found)
    warps = 1 if single and tile <= 256 else 4 if flat or tile <= 2048 else 8
    found["WARPS"] = f"Choice(1, 2, 4, 8, 16, default={warps})"
    return {f"{name}_{key}": text for key, text in found.items()}, constants
