"""Kernels without a matrix product: a program takes a tile of rows and makes the passes over them."""

from __future__ import annotations

from collections.abc import Mapping

from kernelevolve.operators.synthesis.buffer import Role
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
from kernelevolve.operators.synthesis.expr import Op
from kernelevolve.operators.synthesis.kernels import LoopKernel, Pass
from kernelevolve.operators.synthesis.plan import Planner
from kernelevolve.operators.synthesis.traversal import loads, walk

LONGEST_ROW = 8192
"""Elements of a row that is kept in registers as a whole."""


_WORTH_A_BLOCK = 512
"""Extent of the last row axis from which on blocks of it are nearly always full."""


def write_row_kernel(kernel: LoopKernel, hints: Mapping[str, int], planner: Planner) -> KernelText:
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
    body = Body(guarded=_guarded(kernel, planner))
    blocked = flat and not single and _blocked(kernel, hints, planner)
    columns = Columns(None if whole else "COLUMNS", "UNROLL" if crossed or segmented else None)
    rows = _open_blocked(kernel, body, hints) if blocked else _open(kernel, body, hints, single=single, flat=flat)
    writer = PassWriter(body, rows, columns, flat)
    for step in passes:
        writer.write(step)
        writer.publish(step)
    tunables, constants = _tunables(name, flat=flat, single=single, columns=columns, tile=tile)
    count = python_text(extent_of(kernel.rows[-1:] if blocked else kernel.rows))
    grid = (count if single else f'triton.cdiv({count}, CONFIG["{name}_ROWS"])',)
    if blocked:
        grid = (f"{python_text(extent_of(kernel.rows[:-1]))} * {grid[0]}",)
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


def _guarded(kernel: LoopKernel, planner: Planner) -> bool:
    """Whether memory that a choice leaves out is skipped: fewer bytes, but narrower loads."""
    choices = [e for x in kernel.expressions() for e in walk(x) if isinstance(e, Op) and e.name == "where"]
    sides = {load.buffer for choice in choices for side in choice.args[1:] for load in loads(side)}
    asked = {load.buffer for choice in choices for load in loads(choice.args[0])}
    if all(buffer.role is Role.ROW for buffer in sides - asked):
        return False
    return planner.choose(f"left-out:{kernel.name}", ("loaded", "skipped"), niche=True) == "skipped"


def _blocked(kernel: LoopKernel, hints: Mapping[str, int], planner: Planner) -> bool:
    """Whether a program takes a block of the last row axis alone, so that all other positions are scalars."""
    if len(kernel.rows) < 2:
        return False
    long = kernel.rows[-1].extent.evaluate(hints) >= _WORTH_A_BLOCK
    options = ("blocked", "flat") if long else ("flat", "blocked")
    return planner.choose(f"rows:{kernel.name}", options) == "blocked"


def _open_blocked(kernel: LoopKernel, body: Body, hints: Mapping[str, int]) -> Scope:
    """A block of the last row axis at one point of the others."""
    wide = ".to(tl.int64)" if needs_wide_positions(kernel, hints) else ""
    last = Scope(body, {}, {}).index(kernel.rows[-1].extent)
    body.line(f"blocks = tl.cdiv({last}, ROWS)")
    body.line(f"outer = (tl.program_id(0) // blocks){wide}")
    body.line(f"at = (tl.program_id(0) % blocks){wide} * ROWS + tl.arange(0, ROWS)")
    body.line(f"inside = at < {last}")
    names, masks = row_scope(body, kernel.rows[:-1], "outer", "")
    return Scope(body, {**names, kernel.rows[-1]: "at"}, {**masks, kernel.rows[-1]: "inside"})


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
        found["UNROLL"] = "PowerOfTwo(1, 32, 16)"
    constants = tuple(found)
    warps = 1 if single and tile <= 256 else 4 if flat or tile <= 2048 else 8
    found["WARPS"] = f"Choice(1, 2, 4, 8, 16, default={warps})"
    return {f"{name}_{key}": text for key, text in found.items()}, constants
