"""Passes over a row as Triton text: pointwise work, reductions, and sums over segments whose bounds lie in memory."""

from __future__ import annotations

from dataclasses import dataclass

from kernelevolve.operators.synthesis.buffer import Buffer, Role
from kernelevolve.operators.synthesis.emit.emitter import Inexpressible
from kernelevolve.operators.synthesis.emit.triton.operations import DTYPES
from kernelevolve.operators.synthesis.emit.triton.scope import Body, Scope
from kernelevolve.operators.synthesis.index import Index, Var
from kernelevolve.operators.synthesis.ir import Combine, Target
from kernelevolve.operators.synthesis.kernels import Accumulate, Pass
from kernelevolve.operators.synthesis.layout import product_of
from kernelevolve.operators.synthesis.traversal import loads

NEUTRAL = {
    Combine.SUM: "0", Combine.PROD: "1", Combine.MAX: 'float("-inf")', Combine.MIN: 'float("inf")',
    Combine.ANY: "0", Combine.ALL: "1",
}  # fmt: skip
_EXTREMES = {
    "int8": (-(1 << 7), (1 << 7) - 1), "uint8": (0, 255), "int16": (-(1 << 15), (1 << 15) - 1),
    "int32": (-(1 << 31), (1 << 31) - 1), "int64": (-(1 << 63), (1 << 63) - 1),
}  # fmt: skip


def split_names(flat: str, axes: tuple[Var, ...], scope: Scope) -> dict[Var, str]:
    """Texts of axes that are walked as one flattened index, the last axis fastest."""
    names: dict[Var, str] = {}
    step = Index.of(1)
    for position, axis in reversed(list(enumerate(axes))):
        text = flat if step.constant == 1 else f"({flat} // ({scope.index(step)}))"
        if position:
            text = f"({text} % ({scope.index(axis.extent)}))"
        names[axis] = text if text.isidentifier() else f"({text})"
        step = step * axis.extent
    return names


@dataclass(frozen=True)
class Columns:
    """How the inner axes of the passes are laid out in a kernel."""

    chunk: str | None
    """Name of the constexpr by which long rows are cut; None if a whole row is one tile."""
    unroll: str | None = None
    """Name of the constexpr: how many elements of a summed axis are taken at a time beside kept axes."""
    tile: str | None = None
    """Name of the constexpr: the program works on one tile of this many columns, at ``offset``."""


class PassWriter:
    """Writes the passes of one kernel into its body, row by row tile."""

    def __init__(self, body: Body, rows: Scope, columns: Columns, flat_rows: bool, offset: str = "") -> None:
        self._body, self._rows, self._columns = body, rows, columns
        self._flat = flat_rows
        """True if the tile has one dimension, because every pass is scalar code."""
        self._written: set[Buffer] = set()
        self._offset = offset
        """Added to the position in the row: a program that works on one column tile only."""

    def write(self, step: Pass) -> None:
        """One pass."""
        values = [a.value for a in step.assigns] + [a.value for a in step.accumulates]
        if self._written & {load.buffer for value in values for load in loads(value)}:
            self._body.line("tl.debug_barrier()  # What follows reads what this program has stored.")
        if not step.axes and not step.reduced:
            self._assign(step, self._rows)
        elif step.axes and step.reduced:
            self._rows_of_columns(step)
        else:
            self._inner(step, step.axes or step.reduced)

    # One inner dimension

    def _inner(self, step: Pass, axes: tuple[Var, ...]) -> None:
        body, extent = self._body, product_of(a.extent for a in axes)
        chunk = self._columns.chunk
        if step.segment is not None:
            self._segment(step)
            return
        if chunk is None:
            span = self._columns.tile or body.span(extent)
            limit = self._rows.index(extent)
            name = self._arange(span, self._offset)
            scope = self._scope(name, axes, "" if span == limit else f"{name} < {limit}")
            self._assign(step, scope)
            for accumulate in step.accumulates:
                self._finish(accumulate, self._reduced(accumulate, scope, step.reduced), first=True)
            return
        for accumulate in step.accumulates:
            self._start(accumulate)
        start = body.fresh("start")
        limit = self._rows.index(extent)
        body.line(f"for {start} in range(0, {limit}, {chunk}):")
        body.indent += 1
        name = self._arange(chunk, start)
        scope = self._scope(name, axes, f"{name} < {limit}")
        self._assign(step, scope)
        for accumulate in step.accumulates:
            self._finish(accumulate, self._reduced(accumulate, scope, step.reduced), first=False)
        body.indent -= 1

    def _segment(self, step: Pass) -> None:
        """A summed axis whose bounds differ from row to row: as many steps as the longest row of the tile needs."""
        assert step.segment is not None
        body, chunk = self._body, self._columns.unroll
        assert chunk is not None
        begin, end = self._rows.value(step.segment.begin), self._rows.value(step.segment.end)
        for accumulate in step.accumulates:
            self._start(accumulate)
        start = body.fresh("start")
        body.line(f"for {start} in range(0, tl.max({end} - {begin}), {chunk}):")
        body.indent += 1
        name = self._arange(chunk, f"{begin} + {start}")
        scope = self._scope(name, step.reduced, f"{name} < {end}")
        for accumulate in step.accumulates:
            self._finish(accumulate, self._reduced(accumulate, scope, step.reduced), first=False)
        body.indent -= 1

    # Two inner dimensions: the tile is [UNROLL, columns], the program has one row

    def _rows_of_columns(self, step: Pass) -> None:
        body, unroll = self._body, self._columns.unroll
        assert unroll is not None
        extent = product_of(a.extent for a in step.axes)
        span, limit = body.span(extent), self._rows.index(extent)
        kept = self._arange(span, "")
        columns = self._scope(kept, step.axes, "" if span == limit else f"{kept} < {limit}")
        if step.assigns:
            raise Inexpressible("assignments beside a sum with kept axes")
        if step.segment is not None:
            begin, end = self._rows.value(step.segment.begin), self._rows.value(step.segment.end)
        else:
            begin, end = "0", self._rows.index(product_of(a.extent for a in step.reduced))
        for accumulate in step.accumulates:
            self._start(accumulate, span)
        start, name = body.fresh("start"), body.fresh("item")
        body.line(f"for {start} in range({begin}, {end}, {unroll}):")
        body.indent += 1
        body.line(f"{name} = {start} + tl.arange(0, {unroll})[:, None]")
        scope = columns.within(
            split_names(name, step.reduced, columns), dict.fromkeys(step.reduced, f"{name} < {end}"), step.axes
        )
        for accumulate in step.accumulates:
            self._finish(accumulate, self._reduced(accumulate, scope, step.reduced, axis=0), first=False)
        body.indent -= 1
        for accumulate in step.accumulates:
            self._publish(accumulate.targets[0], columns)

    # Pieces

    def _arange(self, width: str, offset: str) -> str:
        name = self._body.fresh("at")
        text = f"tl.arange(0, {width})" if self._flat else f"tl.arange(0, {width})[None, :]"
        self._body.line(f"{name} = {offset} + {text}" if offset else f"{name} = {text}")
        return name

    def _scope(self, name: str, axes: tuple[Var, ...], mask: str) -> Scope:
        return self._rows.within(split_names(name, axes, self._rows), dict.fromkeys(axes, mask), axes)

    def _assign(self, step: Pass, scope: Scope) -> None:
        for assign in step.assigns:
            self.bind(assign.target, scope.value(assign.value), scope)

    def bind(self, target: Target, value: str, scope: Scope) -> None:
        """Give a value to an element: a store, or a name for a ROW buffer."""
        body, buffer = self._body, target.buffer
        dtype = DTYPES[buffer.dtype]
        if buffer.role is Role.ROW:
            if self._columns.chunk is not None and buffer.shape:
                raise Inexpressible(f"the row value {buffer.name} is too long to be kept")
            body.rows[buffer] = buffer.name
            body.line(f"{buffer.name} = tl.cast({value}, {dtype})")
            return
        guard = scope.mask_for(frozenset(v for i in target.index for v in i.variables))
        where = f", mask={guard}" if guard else ""
        kept = body.fresh(f"{buffer.name}_value")
        body.line(f"{kept} = tl.cast({value}, {dtype})")
        body.line(f"tl.store({scope.address(buffer, target.index)}, {kept}{where})")
        if self._columns.chunk is None:
            body.stored[buffer] = (kept, target.index, scope.axes)
        else:
            self._written.add(buffer)

    def _reduced(self, accumulate: Accumulate, scope: Scope, reduced: tuple[Var, ...], axis: int = 1) -> str:
        """The part of a reduction over the tile."""
        combine, dtype = accumulate.combine, accumulate.value.dtype
        if combine not in NEUTRAL:
            raise Inexpressible(f"a {combine} reduction")
        value = scope.value(accumulate.value)
        axis = 0 if self._flat else axis
        guard = scope.mask_for(frozenset(reduced))
        neutral = neutral_of(combine, dtype)
        if dtype == "bool":
            value = f"tl.cast({value}, tl.int32)"
        if guard:
            value = f"tl.where({guard}, {value}, {neutral})"
        elif not set(reduced) <= accumulate.value.variables:
            # A value that is the same all along the axis still counts once for every element.
            value = f"tl.where({scope.index(Index.of(reduced[-1]))} >= 0, {value}, {neutral})"
        keep = "" if self._flat else ", keep_dims=True"
        if combine is Combine.SUM:
            return f"tl.sum({value}, axis={axis}{keep})"
        function = {
            Combine.PROD: "multiplied", Combine.MAX: "larger", Combine.MIN: "smaller", Combine.ANY: "larger",
            Combine.ALL: "smaller",
        }[combine]  # fmt: skip
        return f"tl.reduce({value}, {axis}, {function}{keep})"

    def _start(self, accumulate: Accumulate, width: str | None = None) -> None:
        """The neutral element, in the shape of the result."""
        dtype = accumulate.value.dtype
        neutral = neutral_of(accumulate.combine, dtype)
        kind = "tl.int32" if dtype == "bool" else DTYPES[dtype]
        shape = f"(1, {width})" if width is not None else ("(1,)" if self._flat else "(ROWS, 1)")
        self._body.line(f"{accumulate.targets[0].buffer.name}_sum = tl.full({shape}, {neutral}, {kind})")

    def _finish(self, accumulate: Accumulate, part: str, *, first: bool) -> None:
        """Take a part of a reduction into its result; ``first`` if it is all of it."""
        name = f"{accumulate.targets[0].buffer.name}_sum"
        if first:
            self._body.line(f"{name} = {part}")
        else:
            merge = {
                Combine.SUM: "{0} + {1}", Combine.PROD: "{0} * {1}", Combine.MAX: "larger({0}, {1})",
                Combine.MIN: "smaller({0}, {1})", Combine.ANY: "tl.maximum({0}, {1})",
                Combine.ALL: "tl.minimum({0}, {1})",
            }[accumulate.combine]  # fmt: skip
            self._body.line(f"{name} = {merge.format(name, part)}")

    def publish(self, step: Pass) -> None:
        """After a pass: make its reductions readable, or store them."""
        if not (step.axes and step.reduced):
            for accumulate in step.accumulates:
                self._publish(accumulate.targets[0], self._rows)

    def _publish(self, target: Target, scope: Scope) -> None:
        name = f"{target.buffer.name}_sum"
        self.bind(target, f"({name} != 0)" if target.buffer.dtype == "bool" else name, scope)


def neutral_of(combine: Combine, dtype: str) -> str:
    """The neutral element of a reduction as a literal of a dtype."""
    if combine in (Combine.MAX, Combine.MIN) and dtype in _EXTREMES:
        low, high = _EXTREMES[dtype]
        return str(low if combine is Combine.MAX else high)
    return NEUTRAL[combine]
