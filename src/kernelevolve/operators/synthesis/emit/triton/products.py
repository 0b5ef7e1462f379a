"""Kernels with matrix products: tiles on the tensor cores, with what comes before and after in the same program.

Three shapes. *Grid*: one product too wide for a tile; a program makes one tile of the result, programs that share
columns run close together. *Loop*: a wide product whose left side is itself computed from the row; a program keeps that
and walks over the columns. *Whole*: all columns fit into a tile, so that reductions over a row may follow.
"""

from __future__ import annotations

from collections.abc import Mapping

from kernelevolve.candidates.space import Value as Setting
from kernelevolve.operators.synthesis.buffer import Role
from kernelevolve.operators.synthesis.emit.emitter import Inexpressible
from kernelevolve.operators.synthesis.emit.triton.operations import DTYPES
from kernelevolve.operators.synthesis.emit.triton.passes import Columns, PassWriter, split_names
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
from kernelevolve.operators.synthesis.expr import Cast, Const, Expr, Load, Masked
from kernelevolve.operators.synthesis.index import Var
from kernelevolve.operators.synthesis.ir import split_contracted
from kernelevolve.operators.synthesis.kernels import LoopKernel, Pass, ProductPass

WIDEST_TILE = 256
_NARROW = 64
"""Width up to which a product is made as a whole even if nothing after it needs whole rows."""
_LEAST = 16
"""Least extent of a side of a product on the tensor cores."""
_WISHES: Mapping[bool, tuple[tuple[int, int], ...]] = {
    True: ((128, 128), (128, 256), (64, 128), (64, 64)),
    False: ((64, 64), (64, 128), (128, 64), (32, 64)),
}
"""Rows and columns of a tile, in the order in which they are tried; True: the sides have 16 bits."""


def write_product_kernel(kernel: LoopKernel, hints: Mapping[str, int], precision: str) -> KernelText:
    """The text of a kernel; ``precision`` is Triton's input precision for float32 operands. Raises Inexpressible."""
    return _ProductKernel(kernel, hints, precision).text()


class _ProductKernel:
    def __init__(self, kernel: LoopKernel, hints: Mapping[str, int], precision: str) -> None:
        self._kernel, self._hints, self._precision = kernel, hints, precision
        self._body = Body()
        products = [p for p in kernel.passes if isinstance(p, ProductPass)]
        at = kernel.passes.index(products[-1])
        self._head, self._last, self._tail = kernel.passes[:at], products[-1], kernel.passes[at + 1 :]
        tiled = 0
        while tiled < len(kernel.rows) and all(kernel.rows[-1 - tiled] in p.shared for p in products):
            tiled += 1
        if tiled == 0:
            raise Inexpressible("no two rows share the right side of the product")
        self._batch, self._tiled = kernel.rows[: len(kernel.rows) - tiled], kernel.rows[len(kernel.rows) - tiled :]
        self._mode = self._choose_mode()
        self._depth = 0
        """Length of the longest sum that is walked in blocks; 0 if there is none."""

    def _choose_mode(self) -> str:
        width = extent_of(self._last.columns)
        apart = all(
            isinstance(step, Pass) and not step.reduced and (not step.axes or extent_of(step.axes) == width)
            for step in self._tail
        )
        columns = width.evaluate(self._hints)
        if apart and (columns > WIDEST_TILE if self._head else columns > _NARROW):
            return "loop" if self._head else "grid"
        if columns > WIDEST_TILE:
            raise Inexpressible("a reduction follows a product that is too wide to be kept")
        return "whole"

    def text(self) -> KernelText:
        kernel, body, name = self._kernel, self._body, self._kernel.name.upper()
        rows = self._open()
        writer = PassWriter(body, rows, Columns(None), flat_rows=False)
        for step in self._head:
            if isinstance(step, ProductPass):
                self._whole_product(step, rows, writer)
            else:
                writer.write(step)
                writer.publish(step)
        if self._mode == "whole":
            self._whole_product(self._last, rows, writer)
            self._rest(writer)
        elif self._mode == "grid":
            self._tile_product(rows, "tile_n * BLOCK_N")
        else:
            self._loop_over_columns(rows)
        tunables, constants, seeds = self._tunables(name)
        values = {c: f'CONFIG["{name}_{c}"]' for c in constants}
        values |= span_arguments(body)
        values |= {"num_warps": f'CONFIG["{name}_WARPS"]', "num_stages": f'CONFIG["{name}_STAGES"]'}
        constraints = [f"{name}_BLOCK_M * {name}_BLOCK_N <= 32768"] if "BLOCK_N" in constants else []
        return KernelText(
            define(kernel, body, (*constants, *body.spans.values())),
            launch(kernel, body, self._grid(name), values), tunables, tuple(constraints), seeds,
        )  # fmt: skip

    # Where a program works

    def _open(self) -> Scope:
        body, kernel = self._body, self._kernel
        wide = ".to(tl.int64)" if needs_wide_positions(kernel, self._hints) else ""
        outside = Scope(body, {}, {})
        count = outside.index(extent_of(self._tiled))
        if self._mode == "grid":
            width = outside.index(extent_of(self._last.columns))
            for text in (
                f"tiles_m = tl.cdiv({count}, BLOCK_M)",
                f"tiles_n = tl.cdiv({width}, BLOCK_N)",
                "# Eight tiles down before the next one across: programs that run together share what they read.",
                "band = 8 * tiles_n",
                "first = (tl.program_id(0) // band) * 8",
                "height = min(tiles_m - first, 8)",
                "tile_m = first + (tl.program_id(0) % band) % height",
                "tile_n = (tl.program_id(0) % band) // height",
            ):
                body.line(text)
        else:
            body.line("tile_m = tl.program_id(0)")
        names: dict[Var, str] = {}
        masks: dict[Var, str] = {}
        if self._batch:
            body.line(f"batch = tl.program_id(1){wide}")
            texts, none = row_scope(body, self._batch, "batch", "")
            names, masks = {**names, **texts}, {**masks, **none}
        body.line(f"row = tile_m{wide if not self._batch else ''} * BLOCK_M + tl.arange(0, BLOCK_M)[:, None]")
        body.line(f"inside = row < {count}")
        texts, inside = row_scope(body, self._tiled, "row", "inside")
        return Scope(body, {**names, **texts}, {**masks, **inside})

    def _grid(self, name: str) -> tuple[str, ...]:
        count = python_text(extent_of(self._tiled))
        first = f'triton.cdiv({count}, CONFIG["{name}_BLOCK_M"])'
        if self._mode == "grid":
            width = python_text(extent_of(self._last.columns))
            first += f' * triton.cdiv({width}, CONFIG["{name}_BLOCK_N"])'
        batch = python_text(extent_of(self._batch)) if self._batch else "1"
        return (first, batch, f'CONFIG["{name}_SPLIT"]') if self._mode == "loop" else (first, batch)

    # Products

    def _whole_product(self, step: ProductPass, rows: Scope, writer: PassWriter) -> None:
        extent = extent_of(step.columns)
        if extent.evaluate(self._hints) > WIDEST_TILE:
            raise Inexpressible("a product that is too wide to be kept comes before another pass")
        span = self._body.span(extent, _LEAST)
        scope = self._columns(step, rows, f"tl.arange(0, {span})[None, :]", span == rows.index(extent))
        total = self._accumulate(step, rows, scope, span)
        writer.bind(step.target, total, scope)

    def _tile_product(self, rows: Scope, offset: str) -> None:
        """One tile of the last product and the pointwise passes after it."""
        scope = self._columns(self._last, rows, f"{offset} + tl.arange(0, BLOCK_N)[None, :]", False)
        total = self._accumulate(self._last, rows, scope, "BLOCK_N")
        writer = PassWriter(self._body, rows, Columns(None, tile="BLOCK_N"), flat_rows=False, offset=offset)
        writer.bind(self._last.target, total, scope)
        self._rest(writer)

    def _rest(self, writer: PassWriter) -> None:
        for step in self._tail:
            assert isinstance(step, Pass)
            writer.write(step)
            writer.publish(step)

    def _loop_over_columns(self, rows: Scope) -> None:
        body = self._body
        width = rows.index(extent_of(self._last.columns))
        body.line(f"share = tl.cdiv(tl.cdiv({width}, BLOCK_N), SPLIT) * BLOCK_N")
        body.line("left_edge = tl.program_id(2) * share")
        body.line(f"for column_start in range(left_edge, min(left_edge + share, {width}), BLOCK_N):")
        body.indent += 1
        self._tile_product(rows, "column_start")
        body.indent -= 1

    def _columns(self, step: ProductPass, rows: Scope, text: str, exact: bool) -> Scope:
        name = self._body.fresh("column")
        self._body.line(f"{name} = {text}")
        mask = "" if exact else f"{name} < {rows.index(extent_of(step.columns))}"
        return rows.within(split_names(name, step.columns, rows), dict.fromkeys(step.columns, mask), step.columns)

    def _accumulate(self, step: ProductPass, rows: Scope, columns: Scope, span: str) -> str:
        """The sum over the contracted axes, ``[BLOCK_M, span]`` in float32."""
        body = self._body
        left, right = operand(step.left), operand(step.right)
        resident = isinstance(left, Load) and (left.buffer.role is Role.ROW or left.buffer in body.stored)
        # What a program holds between two products is kept in float32; the reference rounds it to the sides' dtype.
        dtype = right.dtype if resident or left.dtype == right.dtype else "float32"
        if dtype not in ("float32", "float16", "bfloat16"):
            raise Inexpressible(f"a product of {dtype}")
        total = body.fresh("sum")
        extra = f', input_precision="{self._precision}"' if dtype == "float32" else ""
        if resident and isinstance(left, Load):
            self._resident_product(step, left, right, rows, columns, dtype, total, extra)
            return total
        small, long = split_contracted(step.contracted)
        self._depth = max(self._depth, extent_of(long).evaluate(self._hints))
        limit = rows.index(extent_of(long))
        body.line(f"{total} = tl.zeros((BLOCK_M, {span}), tl.float32)")
        start, across, down = body.fresh("start"), body.fresh("k"), body.fresh("k")
        body.line(f"for {start} in range(0, {limit}, BLOCK_K):")
        body.indent += 1
        body.line(f"{across} = {start} + tl.arange(0, BLOCK_K)[None, :]")
        body.line(f"{down} = {start} + tl.arange(0, BLOCK_K)[:, None]")
        fixed: dict[Var, str] = {}
        for axis in small:
            fixed[axis] = body.fresh("tap")
            body.line(f"for {fixed[axis]} in tl.static_range({axis.extent.constant}):")
            body.indent += 1
        free = dict.fromkeys(small, "")
        inner_left = rows.within(
            {**split_names(across, long, rows), **fixed}, {**dict.fromkeys(long, f"{across} < {limit}"), **free}, ()
        )
        inner_right = columns.within(
            {**split_names(down, long, rows), **fixed}, {**dict.fromkeys(long, f"{down} < {limit}"), **free}, ()
        )
        a = self._side(left, inner_left, f"{across} < {limit}", dtype)
        b = self._side(right, inner_right, f"{down} < {limit}", dtype)
        body.line(f"{total} = tl.dot({a}, {b}, {total}{extra})")
        body.indent -= 1 + len(small)
        return total

    def _resident_product(
        self,
        step: ProductPass,
        left: Load,
        right: Expr,
        rows: Scope,
        columns: Scope,
        dtype: str,
        total: str,
        extra: str,
    ) -> None:
        """The left side is a row that the program already holds: contracted in one go."""
        body = self._body
        extent = extent_of(step.contracted)
        if extent.evaluate(self._hints) > WIDEST_TILE:
            raise Inexpressible("a row value that is too long to be contracted in one go")
        span, depth = body.span(extent, _LEAST), rows.index(extent)
        across, down = body.fresh("k"), body.fresh("k")
        body.line(f"{across} = tl.arange(0, {span})[None, :]")
        body.line(f"{down} = tl.arange(0, {span})[:, None]")
        held = rows.within(split_names(across, step.contracted, rows), {}, step.contracted).value(left)
        a = f"tl.cast(tl.where({across} < {depth}, {held}, 0.0), {DTYPES[dtype]})"
        scope = columns.within(
            split_names(down, step.contracted, rows), dict.fromkeys(step.contracted, f"{down} < {depth}"), ()
        )
        b = self._side(right, scope, f"{down} < {depth}", dtype)
        body.line(f"{total} = tl.dot({a}, {b}{extra})")

    def _side(self, expr: Expr, scope: Scope, mask: str, dtype: str) -> str:
        """One side of a product; zero beyond the contracted axes."""
        text = scope.value(expr)
        if not isinstance(expr, (Load, Masked)):
            text = f"tl.where({mask}, {text}, 0.0)"
        return text if expr.dtype == dtype else f"tl.cast({text}, {DTYPES[dtype]})"

    # Tuning

    def _tunables(self, name: str) -> tuple[dict[str, str], tuple[str, ...], tuple[Mapping[str, Setting], ...]]:
        rows = extent_of(self._tiled).evaluate(self._hints)
        width = tile_width(extent_of(self._last.columns).evaluate(self._hints))
        most = max(_LEAST, min(128, tile_width(rows)))
        half = operand(self._last.right).dtype != "float32"
        first, *others = [self._shape(most, width, half, *wish) for wish in _WISHES[half]]
        found = {"BLOCK_M": f"PowerOfTwo({_LEAST}, {most}, {first['BLOCK_M']})"}
        if self._mode != "whole":
            found["BLOCK_N"] = f"PowerOfTwo(32, {min(256, max(32, width))}, {first['BLOCK_N']})"
        if self._depth:
            found["BLOCK_K"] = f"PowerOfTwo(16, 128, {first['BLOCK_K']})"
        if self._mode == "loop":
            found["SPLIT"] = "PowerOfTwo(1, 8, 1)"
        constants = tuple(found)
        found["WARPS"] = f"Choice(2, 4, 8, default={first['WARPS']})"
        found["STAGES"] = "Int(2, 5, 3)"
        seeds: list[dict[str, Setting]] = []
        for other in others:
            seed: dict[str, Setting] = {f"{name}_{k}": v for k, v in other.items() if k in found and v != first[k]}
            if seed and seed not in seeds:
                seeds.append(seed)
        return {f"{name}_{key}": text for key, text in found.items()}, constants, tuple(seeds)

    def _shape(self, most: int, width: int, half: bool, block_m: int, block_n: int) -> dict[str, int]:
        """A tile near the wish that suits the product: a warp group for every 128 accumulators of its threads."""
        block_m = min(most, block_m)
        block_n = max(32, min(width, block_n)) if self._mode != "whole" else max(_LEAST, width)
        block_k = 64 if half and (self._depth % 64 == 0 or self._depth > 512) else 32
        return {
            "BLOCK_M": block_m, "BLOCK_N": block_n, "BLOCK_K": block_k,
            "WARPS": 8 if block_m * block_n > 128 * 128 or (not half and block_m * block_n >= 64 * 128) else 4,
        }  # fmt: skip


def operand(expr: Expr) -> Expr:
    """A side of a product without the widening that the tensor cores do themselves."""
    if isinstance(expr, Cast) and expr.dtype == "float32" and expr.arg.dtype in ("float16", "bfloat16"):
        return expr.arg
    if isinstance(expr, Masked):
        inner, other = operand(expr.value), expr.other
        if inner is not expr.value and isinstance(other, Const) and other.value == 0:
            return Masked(expr.condition, inner, Const(0.0, inner.dtype))
    return expr
