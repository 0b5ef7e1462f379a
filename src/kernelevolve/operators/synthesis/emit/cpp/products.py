"""Kernels with matrix products: a block of neighbouring rows at a time, the passes between the products over its rows.

    parallel for (batch, block of rows[, block of columns]):
        for each panel of columns: pack the right side, multiply the block of rows with it into a tile
        for each row of the block: the passes up to the next product

Where only pointwise passes follow the one product, the columns are divided among tasks too.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from kernelevolve.operators.synthesis.buffer import Buffer, Role
from kernelevolve.operators.synthesis.dtype import compute_dtype
from kernelevolve.operators.synthesis.emit.cpp.collapse import collapsed_rows
from kernelevolve.operators.synthesis.emit.cpp.function import Function
from kernelevolve.operators.synthesis.emit.cpp.nest import Scope
from kernelevolve.operators.synthesis.emit.cpp.operations import STORAGE_TYPES, VALUE_TYPES
from kernelevolve.operators.synthesis.emit.cpp.product_passes import (
    buffers_read,
    buffers_touched,
    digits_of,
    follows_columns,
    over_axis,
    segments_of,
    zero_outside,
)
from kernelevolve.operators.synthesis.emit.cpp.sweeps import sweep, write
from kernelevolve.operators.synthesis.emit.cpp.text import Text
from kernelevolve.operators.synthesis.expr import Load
from kernelevolve.operators.synthesis.index import Index, Var
from kernelevolve.operators.synthesis.kernels import Assign, LoopKernel, Pass, ProductPass
from kernelevolve.operators.synthesis.layout import flatten, product_of


@dataclass
class _Tile:
    """A ROW buffer of a whole block of rows: ``ROWS`` rows, ``stride`` elements apart."""

    buffer: Buffer
    stride: str


def product_function(kernel: LoopKernel) -> Function:
    """The function of a kernel that has products."""
    kernel = _with_local_results(collapsed_rows(kernel))
    function = Function(kernel)
    _Block(function).emit()
    return function


def _with_local_results(kernel: LoopKernel) -> LoopKernel:
    """Every product writes a ROW buffer; one that wrote to memory is followed by a copy."""
    passes: list[Pass | ProductPass] = []
    local = list(kernel.locals)
    for number, step in enumerate(kernel.passes):
        if not isinstance(step, ProductPass) or step.target.buffer.role is Role.ROW:
            passes.append(step)
            continue
        target = step.target
        shape = tuple(c.extent for c in step.columns)
        made = Buffer(f"tile_{number}", shape, compute_dtype(target.buffer.dtype), Role.ROW)
        place = tuple(Index.of(c) for c in step.columns)
        local.append(made)
        passes.append(replace(step, target=replace(target, buffer=made, index=place)))
        passes.append(Pass(step.columns, (), (Assign(target, Load(made, place)),)))
    return replace(kernel, passes=tuple(passes), locals=tuple(local))


class _Block:
    """The body of one task."""

    def __init__(self, function: Function) -> None:
        self.function = function
        self.kernel = function.kernel
        self.axis = self.kernel.rows[-1]
        self.batch = self.kernel.rows[:-1]
        self.slots = 0
        self.tiles: dict[Buffer, _Tile] = {}
        self.text = Text(2)
        products = [p for p in self.kernel.passes if isinstance(p, ProductPass)]
        self.panels = [f"panel_{n}" for n in range(len(products))]
        last = self.kernel.passes[-1]
        self.by_columns = (
            isinstance(self.kernel.passes[0], ProductPass)
            and len(products) == 1
            and len(products[0].columns) == 1
            and all(follows_columns(p, products[0]) for p in self.kernel.passes[1:])
            and isinstance(last, Pass)
        )

    def emit(self) -> None:
        """Write the whole function body."""
        body, scope = self.function.body, self.function.scope
        batches = scope.index(product_of(r.extent for r in self.batch))
        rows = scope.index(self.axis.extent)
        body.line(f"const int64_t row_blocks = (({rows}) + ROWS - 1) / ROWS;")
        tasks = f"({batches}) * row_blocks" if batches != "1" else "row_blocks"
        if self.by_columns:
            columns = scope.index(self._product().columns[0].extent)
            body.line(f"constexpr int64_t kColumns = PANELS * {_width(self._product())};")
            body.line(f"const int64_t column_blocks = (({columns}) + kColumns - 1) / kColumns;")
            tasks += " * column_blocks"
        body.line("#pragma omp parallel for schedule(dynamic)")
        body.line(f"for (int64_t task = 0; task < {tasks}; task++) {{")
        outer = Scope(self.function.names, self.text, scope)
        at = "task"
        if self.by_columns:
            # Tasks that share columns are neighbours, so that these stay in a shared cache.
            self.text.line(
                f"const int64_t first_column = task / ({tasks.removesuffix(' * column_blocks')}) * kColumns;"
            )
            at = f"task % ({tasks.removesuffix(' * column_blocks')})"
        if self.batch:
            self.text.line(f"const int64_t batch = ({at}) / row_blocks;")
            outer = self.function.row_scope(self.batch, "batch", 2)
            for line in outer.text.lines:
                self.text.lines.append(line)
            outer.text = self.text
        self.text.line(f"const int64_t first_row = ({at}) % row_blocks * ROWS;")
        self.text.line(f"const int64_t rows = ke::lib::least<int64_t>(ROWS, {rows} - first_row);")
        self._declare_tiles(outer)
        if self.by_columns:
            self._columns(outer)
        else:
            self._whole_rows(outer)
        body.extend(self.text)
        body.line("}")

    def _product(self) -> ProductPass:
        (found,) = (p for p in self.kernel.passes if isinstance(p, ProductPass))
        return found

    # Scratch

    def _slot(self, name: str, count: str, kind: str) -> None:
        self.text.line(f"{kind}* __restrict {name} = ke::scratch<{self.slots}, {kind}>({count});")
        self.slots += 1

    def _declare_tiles(self, scope: Scope) -> None:
        """Memory for every ROW buffer that lives across a product, and for panels."""
        segments = segments_of(self.kernel.passes)
        products = [p for p in self.kernel.passes if isinstance(p, ProductPass)]
        for buffer in self.kernel.locals:
            used_in = {n for n, steps in enumerate(segments) if any(buffer in buffers_touched(s) for s in steps)}
            product = next((p for p in products if p.target.buffer == buffer), None)
            read_by_product = any(buffer in buffers_read(p) for p in products)
            if product is None and not read_by_product and len(used_in) <= 1:
                continue
            size = scope.index(product_of(buffer.shape))
            if product is not None:
                width = _width(product)
                size = width if self.by_columns else f"((({size}) + {width} - 1) / {width} * {width})"
            self.tiles[buffer] = _Tile(buffer, f"{buffer.name}_stride")
            self.text.line(f"const int64_t {buffer.name}_stride = {size};")
            self._slot(f"{buffer.name}_tile", f"ROWS * {buffer.name}_stride", VALUE_TYPES[buffer.dtype])
        for name, product in zip(self.panels, products, strict=True):
            depth = scope.index(product_of(v.extent for v in product.contracted))
            self._slot(name, f"({self._depth(product, depth)}) * {_width(product)}", _kind(product))

    def _depth(self, product: ProductPass, depth: str) -> str:
        """Rows of a panel: KC of them at a time if there is one contracted axis, else all."""
        return f"ke::lib::least<int64_t>(KC, {depth})" if len(product.contracted) == 1 else depth

    # Products

    def _multiply(self, scope: Scope, product: ProductPass, panel: str, begin: str, end: str, offset: bool) -> None:
        """Panels of columns from ``begin`` to ``end``; ``offset`` if the tile holds whole rows."""
        text = self.text
        width, kind = _width(product), _kind(product)
        left, stride = self._left(scope, product)
        depth = scope.index(product_of(v.extent for v in product.contracted))
        target = self.tiles[product.target.buffer]
        place = f"{target.buffer.name}_tile + column" if offset else f"{target.buffer.name}_tile"
        text.line(f"for (int64_t column = {begin}; column < {end}; column += {width}) {{")
        text.depth += 1
        text.line(f"const int64_t count = ke::lib::least<int64_t>({width}, {end} - column);")
        if len(product.contracted) == 1:
            text.line(f"for (int64_t k = 0; k < {depth}; k += KC) {{")
            text.depth += 1
            text.line(f"const int64_t depth = ke::lib::least<int64_t>(KC, {depth} - k);")
            self._pack(scope, product, panel, "k", "depth")
            text.line(
                f"ke::multiply<MR, NV, {kind}>"
                f"(rows, depth, count, {left} + k, {stride}, {panel}, {place}, {target.stride}, k > 0);"
            )
            text.depth -= 1
            text.line("}")
        else:
            self._pack(scope, product, panel, "0", depth)
            text.line(
                f"ke::multiply<MR, NV, {kind}>"
                f"(rows, {depth}, count, {left}, {stride}, {panel}, {place}, {target.stride}, false);"
            )

    def _end_columns(self) -> None:
        self.text.depth -= 1
        self.text.line("}")

    def _left(self, scope: Scope, product: ProductPass) -> tuple[str, str]:
        """Pointer and row stride of the left side: where it lies if rows of it are contiguous, else a copy."""
        left = product.left
        if isinstance(left, Load) and left.buffer.dtype == _dtype(product):
            if left.buffer in self.tiles and left.index == tuple(Index.of(k) for k in product.contracted):
                return f"{left.buffer.name}_tile", self.tiles[left.buffer].stride
            offset = flatten(left.index, left.buffer.shape)
            flat = flatten(tuple(Index.of(k) for k in product.contracted), tuple(k.extent for k in product.contracted))
            step = offset.coefficient(self.axis)
            rest = offset - flat - (Index.of(self.axis) * step if step is not None else Index())
            if step is not None and left.buffer.role is not Role.ROW and not rest.variables & set(product.contracted):
                start = rest + step * _FIRST
                return f"{scope.storage[left.buffer][0]} + {scope.index(start)}", scope.index(step)
        return self._copied_left(scope, product)

    def _copied_left(self, scope: Scope, product: ProductPass) -> tuple[str, str]:
        text, kind = self.text, _kind(product)
        depth = scope.index(product_of(v.extent for v in product.contracted))
        name = self.function.names.fresh("left")
        self._slot(name, f"ROWS * ({depth})", kind)
        text.line("for (int64_t r = 0; r < rows; r++) {")
        row = self._row_scope(scope)
        made = Buffer(name, tuple(v.extent for v in product.contracted), _dtype(product), Role.ROW)
        row.text.line(f"{kind}* __restrict {name}_row = {name} + r * ({depth});")
        row.storage[made] = (f"{name}_row", made.shape)
        place = tuple(Index.of(v) for v in product.contracted)
        sweep(
            row,
            Pass(product.contracted, (), (Assign(replace(product.target, buffer=made, index=place), product.left),)),
        )
        text.extend(row.text)
        text.line("}")
        return name, depth

    def _pack(self, scope: Scope, product: ProductPass, panel: str, start: str, depth: str) -> None:
        """The right side for one panel: contracted positions from ``start`` on, a row of columns each."""
        right = product.right
        text = self.text
        column = product.columns[-1]
        if len(product.columns) == 1 and len(product.contracted) == 1 and isinstance(right, Load):
            (inner,) = product.contracted
            offset = flatten(right.index, right.buffer.shape)
            step = offset.coefficient(column)
            plain = right.buffer.dtype == _dtype(product) and offset.affine
            if plain and step is not None and offset.coefficient(inner) == Index.of(1) and step != Index.of(1):
                rest = offset - Index.of(inner) - Index.of(column) * step
                base = f"{scope.storage[right.buffer][0]} + {scope.index(rest + step * _COLUMN)}"
                text.line(f"ke::pack_transposed<NV>({depth}, count, {base} + {start}, {scope.index(step)}, {panel});")
                return
        self._pack_by_element(scope, product, panel, start, depth)

    def _pack_by_element(self, scope: Scope, product: ProductPass, panel: str, start: str, depth: str) -> None:
        text, width = self.text, _width(product)
        flat = Var("lane_column", product_of(c.extent for c in product.columns))
        columns = digits_of(flat, product.columns)
        right = product.right.substitute(columns)
        inside_value, bounds = zero_outside(right, flat)
        contracted = product.contracted
        packed = Scope(self.function.names, Text(text.depth), scope)
        packed.uses.clear()
        packed.count([inside_value])
        nest = [packed]
        for axis in contracted:
            inside = nest[-1].inner([axis])
            nest.append(inside)
        lane = nest[-1].inner([flat])
        lane.spelling[flat] = "(column + n)"
        position = flatten(tuple(Index.of(v) for v in contracted), tuple(v.extent for v in contracted))
        row = scope_index(nest[-1], position, start)
        value = lane.value(inside_value)
        lane.text.line(f"panel_row[n] = {value};")
        inner = nest[-1].text
        kind = _kind(product)
        inner.line(f"{kind}* __restrict panel_row = {panel} + ({row}) * {width};")
        begin_lane, end_lane = "0", "count"
        if bounds:
            # Positions outside are zero: the columns that are inside form one run.
            lows = ["0", *(f"-({nest[-1].index(low)}) - column" for low, _ in bounds)]
            highs = ["count", *(f"{nest[-1].index(size - low)} - column" for low, size in bounds)]
            first, last = ", ".join(lows), ", ".join(highs)
            inner.line(f"const int64_t low = ke::lib::least<int64_t>(ke::lib::greatest<int64_t>({first}), count);")
            inner.line(f"const int64_t high = ke::lib::greatest<int64_t>(ke::lib::least<int64_t>({last}), low);")
            inner.line("for (int64_t n = 0; n < low; n++) panel_row[n] = 0;")
            begin_lane, end_lane = "low", "high"
        inner.line("#pragma omp simd")
        inner.line(f"for (int64_t n = {begin_lane}; n < {end_lane}; n++) {{")
        inner.extend(lane.text)
        inner.line("}")
        inner.line(f"for (int64_t n = {end_lane}; n < {width}; n++) panel_row[n] = 0;")
        for number in range(len(contracted) - 1, -1, -1):
            axis, around = contracted[number], nest[number].text
            begin = start if len(contracted) == 1 else "0"
            end = f"{start} + {depth}" if len(contracted) == 1 else scope.index(axis.extent)
            around.line(f"for (int64_t {axis.name} = {begin}; {axis.name} < {end}; {axis.name}++) {{")
            around.extend(nest[number + 1].text)
            around.line("}")
        text.extend(packed.text)

    # Rows

    def _row_scope(self, outer: Scope) -> Scope:
        """The scope of row ``r`` of the block, in which tiles are seen as rows."""
        row = Scope(self.function.names, Text(self.text.depth + 1), outer, [self.axis])
        row.storage = dict(outer.storage)
        row.written = outer.written
        row.spelling[self.axis] = "(first_row + r)"
        for buffer, tile in self.tiles.items():
            kind = VALUE_TYPES[buffer.dtype]
            if buffer.shape:
                row.text.line(f"{kind}* __restrict {buffer.name} = {buffer.name}_tile + r * {tile.stride};")
            else:
                row.text.line(f"{kind}& {buffer.name} = {buffer.name}_tile[r];")
            row.storage[buffer] = (buffer.name, buffer.shape)
        return row

    def _whole_rows(self, outer: Scope) -> None:
        """Alternate between products over the block and passes over its rows."""
        product_number = 0
        for steps in segments_of(self.kernel.passes):
            first = steps[0]
            if isinstance(first, ProductPass):
                columns = outer.index(product_of(c.extent for c in first.columns))
                self._multiply(outer, first, self.panels[product_number], "0", columns, offset=True)
                self._end_columns()
                product_number += 1
                continue
            row = self._row_scope(outer)
            touched = {b for s in steps for b in buffers_touched(s)}
            for buffer in self.kernel.locals:
                if buffer in touched and buffer not in self.tiles:
                    _declare(row, buffer)
            for step in steps:
                assert isinstance(step, Pass)
                sweep(row, step)
            self.text.line("for (int64_t r = 0; r < rows; r++) {")
            self.text.extend(row.text)
            self.text.line("}")

    def _columns(self, outer: Scope) -> None:
        """One panel at a time: multiply, then the pointwise passes on the columns of the panel."""
        product = self._product()
        (axis,) = product.columns
        extent = outer.index(axis.extent)
        end = f"ke::lib::least<int64_t>(first_column + kColumns, {extent})"
        self.text.line(f"const int64_t last_column = {end};")
        self._multiply(outer, product, self.panels[0], "first_column", "last_column", offset=False)
        row = self._row_scope(outer)
        steps = [p for p in self.kernel.passes if isinstance(p, Pass)]
        assigns = [a for p in steps for a in over_axis(p, axis).assigns]
        row.uses.clear()
        row.count(a.value for a in assigns)
        row.written |= {a.target.buffer for a in assigns}
        lane = Scope(self.function.names, Text(row.text.depth + 1), row, [axis], barrier=True)
        lane.spelling[axis] = "(column + n)"
        tile = product.target.buffer
        read = Load(tile, (Index.of(axis),))
        lane.known[read] = f"{tile.name}[n]"
        for buffer in self.kernel.locals:
            if buffer not in self.tiles:
                _declare(lane, replace(buffer, shape=()), buffer)
        for assign in assigns:
            write(lane, assign)
        row.text.line("#pragma omp simd")
        row.text.line("for (int64_t n = 0; n < count; n++) {")
        row.text.extend(lane.text)
        row.text.line("}")
        self.text.line("for (int64_t r = 0; r < rows; r++) {")
        self.text.extend(row.text)
        self.text.line("}")
        self._end_columns()


_FIRST = Var("first_row", Index.of(1 << 40))
_COLUMN = Var("column", Index.of(1 << 40))


def _declare(scope: Scope, buffer: Buffer, known_as: Buffer | None = None) -> None:
    kind = STORAGE_TYPES["bool"] if buffer.dtype == "bool" else VALUE_TYPES[buffer.dtype]
    count = scope.index(product_of(buffer.shape))
    scope.text.line(f"alignas(64) {kind} {buffer.name}[{count}];" if buffer.shape else f"{kind} {buffer.name};")
    scope.storage[known_as or buffer] = (buffer.name, buffer.shape)
    scope.declared.add(known_as or buffer)


def scope_index(scope: Scope, position: Index, start: str) -> str:
    """The row of a panel for a contracted position."""
    text = scope.index(position)
    return text if start == "0" else f"{text} - {start}"


def _dtype(product: ProductPass) -> str:
    return compute_dtype(product.left.dtype)


def _kind(product: ProductPass) -> str:
    return VALUE_TYPES[_dtype(product)]


def _width(product: ProductPass) -> str:
    return f"(NV * ke::kLanes<{_kind(product)}>)"
