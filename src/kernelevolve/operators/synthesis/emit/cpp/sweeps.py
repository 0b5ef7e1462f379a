"""Passes as loops. The innermost loop runs over lanes, a fixed number of neighbouring points, and is vectorised."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from kernelevolve.operators.synthesis.dtype import compute_dtype
from kernelevolve.operators.synthesis.emit.cpp.collapse import collapsed_pass
from kernelevolve.operators.synthesis.emit.cpp.combines import Lanes
from kernelevolve.operators.synthesis.emit.cpp.nest import Scope, searches_in
from kernelevolve.operators.synthesis.emit.cpp.operations import STORAGE_TYPES, VALUE_TYPES, converted, stored
from kernelevolve.operators.synthesis.expr import Expr, Load, Search, Value
from kernelevolve.operators.synthesis.index import Index, Var
from kernelevolve.operators.synthesis.ir import Combine, Target
from kernelevolve.operators.synthesis.kernels import Assign, Pass
from kernelevolve.operators.synthesis.layout import flatten, product_of
from kernelevolve.operators.synthesis.traversal import children

LANES = "LANES"
_ONE = Index.of(1)
_PIECE = 256
"""Values that are added to one cell before the next partial sum begins."""
_TYPICAL_LANES = 32


def sweep(row: Scope, step: Pass) -> None:
    """Write one pass of a row."""
    step = collapsed_pass(step)
    values: list[Expr] = [*(a.value for a in step.assigns), *(a.value for a in step.accumulates)]
    if step.segment is not None:
        values += [step.segment.begin, step.segment.end]
    row.uses.clear()
    row.count(values)
    scope = Scope(row.names, row.text, row, barrier=True)
    for target in (*(a.target for a in step.assigns), *(t for a in step.accumulates for t in a.targets)):
        scope.written.add(target.buffer)
    if not step.axes and not step.reduced:
        for assign in step.assigns:
            write(scope, assign)
    elif step.accumulates:
        _Reduction(scope, step).emit()
    else:
        _loops(scope, step.axes[:-1], lambda s: _mapped(s, step.axes[-1], step.assigns))


def write(scope: Scope, assign: Assign) -> None:
    """``target = value``; a later read of the target at this point uses the value."""
    target, value = assign.target, assign.value
    read = Load(target.buffer, target.index)
    text = scope.named(value) if scope.uses[read] else scope.value(value)
    if scope.uses[read] and compute_dtype(target.buffer.dtype) == value.dtype:
        scope.known[read] = text
    store(scope, target, text, value.dtype)


def store(scope: Scope, target: Target, text: str, dtype: str) -> None:
    """Store a text of a dtype."""
    text = converted(text, dtype, compute_dtype(target.buffer.dtype))
    scope.text.line(f"{scope.element(target.buffer, target.index)} = {stored(target.buffer.dtype, text)};")


def _loops(scope: Scope, axes: Sequence[Var], body: Callable[[Scope], None]) -> None:
    """Plain loops over axes around a body."""
    if not axes:
        body(scope)
        return
    axis, *rest = axes
    inside = scope.inner([axis])
    _loops(inside, rest, body)
    scope.text.line(f"for (int64_t {axis.name} = 0; {axis.name} < {scope.index(axis.extent)}; {axis.name}++) {{")
    scope.text.extend(inside.text)
    scope.text.line("}")


def _mapped(scope: Scope, axis: Var, assigns: Sequence[Assign]) -> None:
    """A loop that assigns: vectorised, in blocks of lanes if it searches."""
    if searches_in(a.value for a in assigns):
        blocks(scope, axis, "0", scope.index(axis.extent), lambda s, count: lane_body(s, axis, count, assigns))
        return
    inside = scope.inner([axis])
    for assign in assigns:
        write(inside, assign)
    scope.text.line("#pragma omp simd")
    scope.text.line(f"for (int64_t {axis.name} = 0; {axis.name} < {scope.index(axis.extent)}; {axis.name}++) {{")
    scope.text.extend(inside.text)
    scope.text.line("}")


def blocks(
    scope: Scope, axis: Var, begin: str, end: str, body: Callable[[Scope, str], None], lanes: str = LANES
) -> None:
    """Walk an axis in blocks: ``body(scope, count)`` is written once, for ``count`` points from ``axis_0`` on."""
    names = scope.names
    name, first = names.fresh("block"), f"{axis.name}_0"
    # The axis is known lane by lane only: in the scopes that ``_lane_scope`` makes, not in the block.
    inside = scope.inner()
    inside.spelling[axis] = f"({first} + l)"
    body(inside, "count")
    text = scope.text
    text.line(f"const auto {name} = [&](int64_t {first}, auto count) __attribute__((always_inline)) {{")
    text.line("  KE_LANES_BELOW;")
    text.extend(inside.text)
    text.line("};")
    at = names.fresh("at")
    text.line(f"int64_t {at} = {begin};")
    text.line(f"const int64_t {at}_end = {end};")
    text.line(f"for (; {at} + {lanes} <= {at}_end; {at} += {lanes}) {name}({at}, Fixed<{lanes}>{{}});")
    text.line(f"if ({at} < {at}_end) {name}({at}, static_cast<int>({at}_end - {at}));")


def lane_body(
    scope: Scope,
    axis: Var,
    count: str,
    assigns: Sequence[Assign],
    lanes: str = LANES,
    declare: Callable[[Scope], None] = lambda inside: None,
) -> None:
    """Assignments at the points of a block, with searches of all lanes done together first.

    ``declare`` may write declarations at the head of the loop over lanes.
    """
    searches = searches_in(a.value for a in assigns)
    for search in searches:
        _lane_search(scope, axis, count, search, lanes)
    inside = _lane_scope(scope, axis)
    declare(inside)
    for assign in assigns:
        write(inside, assign)
    _simd(scope, inside, count)


def _lane_scope(scope: Scope, axis: Var) -> Scope:
    inside = scope.inner([axis])
    inside.spelling[axis] = scope.spelling[axis]
    return inside


def _simd(scope: Scope, inside: Scope, count: str) -> None:
    scope.text.line("#pragma omp simd")
    scope.text.line(f"for (int l = 0; l < {count}; l++) {{")
    scope.text.extend(inside.text)
    scope.text.line("}")


def _lane_search(scope: Scope, axis: Var, count: str, search: Search, lanes: str) -> None:
    if any(axis in i.variables for i in (*search.row, search.length)):
        return  # Every lane searches a row of its own: each does it for itself.
    name = scope.names.fresh("found")
    kind = VALUE_TYPES[search.value.dtype]
    text = scope.text
    text.line(f"alignas(64) {kind} {name}_for[{lanes}] = {{}};")
    inside = _lane_scope(scope, axis)
    inside.text.line(f"{name}_for[l] = {inside.value(search.value)};")
    _simd(scope, inside, count)
    text.line(f"alignas(64) int32_t {name}[{lanes}];")
    right = "true" if search.right else "false"
    table, length = scope.row_pointer(search.sorted, search.row), scope.index(search.length)
    text.line(f"ke::search<{lanes}, {right}>({table}, {length}, {name}_for, {name});")
    scope.known[search] = converted(f"{name}[l]", "int32", search.dtype)


class _Reduction:
    """A pass that accumulates. Partial results lie in lanes along the last kept axis, or the last reduced one."""

    def __init__(self, scope: Scope, step: Pass) -> None:
        self.scope = scope
        self.step = step
        self.lanes: list[Lanes] = []

    def emit(self) -> None:
        """Write the pass."""
        if self.step.axes:
            _loops(self.scope, self.step.axes[:-1], self._kept)
        else:
            self._declare(self.scope)
            *outer, last = self._ordered()
            self._reduced(self.scope, outer, lambda s: self._along(s, last, alone=not outer), each=last.extent)
            for lanes, accumulate in zip(self.lanes, self.step.accumulates, strict=True):
                results = lanes.finish(self.scope.text)
                for target, text in zip(accumulate.targets, results, strict=True):
                    self._store(self.scope, target, text, lanes)

    def _ordered(self) -> tuple[Var, ...]:
        """Reduced axes with the one that is contiguous in most loads last."""
        step = self.step
        votes = dict.fromkeys(step.reduced, 0)
        for accumulate in step.accumulates:
            for e in _top_loads(accumulate.value):
                for axis in step.reduced:
                    if flatten(e.index, e.buffer.shape).coefficient(axis) == Index.of(1):
                        votes[axis] += 1
        best = max(reversed(step.reduced), key=lambda a: votes[a])
        return (*(a for a in step.reduced if a != best), best)

    def _declare(self, scope: Scope) -> None:
        self.lanes = []
        for accumulate in self.step.accumulates:
            name = scope.names.fresh("partial")
            lanes = Lanes(name, accumulate.combine, accumulate.value.dtype, LANES)
            lanes.declare(scope.text)
            self.lanes.append(lanes)

    def _take(self, scope: Scope, lane: str) -> None:
        for assign in self.step.assigns:
            write(scope, assign)
        for lanes, accumulate in zip(self.lanes, self.step.accumulates, strict=True):
            value = scope.value(accumulate.value)
            if lanes.combine in (Combine.ARGMAX, Combine.ARGMIN):
                shape = tuple(v.extent for v in self.step.reduced)
                position = flatten(tuple(Index.of(v) for v in self.step.reduced), shape)
                lanes = Lanes(lanes.name, lanes.combine, lanes.dtype, lanes.width, scope.index(position))
            lanes.take(scope.text, value, lane)

    def _reduced(self, scope: Scope, axes: Sequence[Var], body: Callable[[Scope], None], each: Index = _ONE) -> None:
        """Loops over reduced axes, in pieces if they are long; ``each`` values are added up in ``body``."""
        if not axes:
            body(scope)
            return
        axis, *rest = axes
        begin, end = self._bounds(scope, axis)
        inner = product_of((*(a.extent for a in rest), each)).constant
        step = max(1, _PIECE // (inner or _PIECE))
        if not self._in_pieces(axis, step):
            self._loop(scope, axis, rest, begin, end, body)
            return
        self._pieces(scope, begin, end, str(step), lambda s, b, e: self._loop(s, axis, rest, b, e, body))

    def _in_pieces(self, axis: Var, step: int) -> bool:
        """True if so many values are added along an axis that their sum is better made of partial sums.

        A segment is left whole: bags are short, and their bounds lie in memory.
        """
        long = axis.extent.constant is None or axis.extent.constant > 2 * step
        ragged = self.step.segment is not None and self.step.segment.var == axis
        return long and not ragged and any(lanes.loses_digits for lanes in self.lanes)

    def _pieces(self, scope: Scope, begin: str, end: str, step: str, body: Callable[[Scope, str, str], None]) -> None:
        """``body(scope, begin, end)`` for one piece after the other, sums going through totals of partial sums.

        The error of a sum of n terms grows as n; made of partial sums as here, as n / step + step (Higham, SIAM Journal
        on Scientific Computing 14(4), 1993, section 3).
        """
        sums = [lanes for lanes in self.lanes if lanes.loses_digits]
        text, piece = scope.text, scope.names.fresh("piece")
        for lanes in sums:
            lanes.open_total(text)
        inside = scope.inner()
        for lanes in sums:
            lanes.clear(inside.text)
        body(inside, piece, f"ke::lib::least<int64_t>({piece} + {step}, {end})")
        for lanes in sums:
            lanes.add_to_total(inside.text)
        text.line(f"for (int64_t {piece} = {begin}; {piece} < {end}; {piece} += {step}) {{")
        text.extend(inside.text)
        text.line("}")
        for lanes in sums:
            lanes.close_total(text)

    def _loop(
        self, scope: Scope, axis: Var, rest: Sequence[Var], begin: str, end: str, body: Callable[[Scope], None]
    ) -> None:
        inside = scope.inner([axis])
        self._nested(inside, rest, body)
        scope.text.line(f"for (int64_t {axis.name} = {begin}; {axis.name} < {end}; {axis.name}++) {{")
        scope.text.line("  KE_LANES_BELOW;")
        self._prefetch(scope, axis)
        scope.text.extend(inside.text)
        scope.text.line("}")

    def _nested(self, scope: Scope, axes: Sequence[Var], body: Callable[[Scope], None]) -> None:
        """Further loops, inside a piece or in a sum that needs none."""
        if not axes:
            body(scope)
            return
        axis, *rest = axes
        self._loop(scope, axis, rest, *self._bounds(scope, axis), body)

    def _prefetch(self, scope: Scope, axis: Var) -> None:
        """Rows that later turns of a ragged loop gather are asked for some turns ahead, past the end of the segment."""
        segment = self.step.segment
        if segment is None or segment.var != axis:
            return
        ahead = Var(scope.names.fresh("ahead"), axis.extent)
        gathers = [e for a in self.step.accumulates for e in _top_loads(a.value) if _gathers(e, axis)]
        if not gathers:
            return
        last = scope.index(axis.extent - 1)
        scope.text.line(f"  const int64_t {ahead.name} = ke::lib::least<int64_t>({axis.name} + PREFETCH, {last});")
        for load in gathers:
            lane = self.step.axes[-1] if self.step.axes else None
            moved = {axis: Index.of(ahead), **({lane: Index()} if lane is not None else {})}
            inside = scope.inner([ahead])
            element = inside.element(load.buffer, tuple(i.substitute(moved) for i in load.index))
            scope.text.extend(inside.text)
            width = f"LANES * sizeof({STORAGE_TYPES[load.buffer.dtype]})" if lane is not None else "1"
            scope.text.line(f"  ke::prefetch(&{element}, {width});")

    def _bounds(self, scope: Scope, axis: Var) -> tuple[str, str]:
        segment = self.step.segment
        if segment is None or segment.var != axis:
            return "0", scope.index(axis.extent)
        return scope.value(segment.begin), scope.value(segment.end)

    def _along(self, scope: Scope, axis: Var, *, alone: bool) -> None:
        """The innermost reduced axis, whose neighbouring points go to different lanes; ``alone``: the only one."""
        begin, end = self._bounds(scope, axis)

        def body(block: Scope, count: str) -> None:
            values = [*(a.value for a in self.step.assigns), *(a.value for a in self.step.accumulates)]
            for search in searches_in(values):
                _lane_search(block, axis, count, search, LANES)
            inside = _lane_scope(block, axis)
            self._take(inside, "l")
            _simd(block, inside, count)

        if alone and self._in_pieces(axis, _PIECE * _TYPICAL_LANES):
            step = f"({_PIECE} * LANES)"
            self._pieces(scope, begin, end, step, lambda s, b, e: blocks(s, axis, b, e, body))
        else:
            blocks(scope, axis, begin, end, body)

    def _kept(self, scope: Scope) -> None:
        """Lanes along a kept axis, the reduced axes walked inside each block of lanes."""
        axis = self.step.axes[-1]

        def body(block: Scope, count: str) -> None:
            self._declare(block)

            def innermost(at: Scope) -> None:
                inside = _lane_scope(at, axis)
                self._take(inside, "l")
                _simd(at, inside, count)

            self._reduced(block, self.step.reduced, innermost)
            inside = _lane_scope(block, axis)
            for lanes, accumulate in zip(self.lanes, self.step.accumulates, strict=True):
                for target, name in zip(accumulate.targets, lanes.results, strict=True):
                    self._store(inside, target, f"{name}[l]", lanes)
            _simd(block, inside, count)

        blocks(scope, axis, "0", scope.index(axis.extent), body)

    def _store(self, scope: Scope, target: Target, text: str, lanes: Lanes) -> None:
        dtype = "int64" if lanes.combine in (Combine.ARGMAX, Combine.ARGMIN) else lanes.dtype
        store(scope, target, text, dtype)


def _gathers(load: Load, axis: Var) -> bool:
    """True for a load at a position that is read from memory and changes along the axis."""
    atoms = [a for i in load.index for a in i.atoms]
    return any(isinstance(a, Value) and axis in a.expr.variables for a in atoms)


def _top_loads(expr: Expr) -> list[Load]:
    pending: list[Expr] = [expr]
    found: list[Load] = []
    while pending:
        e = pending.pop()
        pending += children(e)
        if isinstance(e, Load):
            found.append(e)
    return found
