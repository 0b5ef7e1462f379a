"""Scopes: what loop variables are called in a piece of a Triton kernel, and expressions written out under them.

Every loop variable is a tensor that broadcasts with the others: a row variable is ``[ROWS, 1]`` (or a scalar that the
program holds fixed), a variable of the pass ``[1, COLUMNS]``. Values are written as assignments, each sub-expression
once.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field

from kernelevolve.operators.synthesis.buffer import Buffer, Role
from kernelevolve.operators.synthesis.emit.emitter import Inexpressible
from kernelevolve.operators.synthesis.emit.triton.operations import DTYPES, template
from kernelevolve.operators.synthesis.expr import (
    Cast,
    Const,
    Expr,
    IndexValue,
    Load,
    Masked,
    Op,
    Search,
    TableValue,
    Value,
)
from kernelevolve.operators.synthesis.index import Atom, FloorDiv, Index, Mod, Size, Var
from kernelevolve.operators.synthesis.layout import flatten
from kernelevolve.operators.synthesis.traversal import loads


@dataclass
class Body:
    """Lines of a kernel under construction, and what it needs from outside."""

    lines: list[str] = field(default_factory=list)
    indent: int = 1
    counter: int = 0
    guarded: bool = False
    """True if what a choice leaves out is not even loaded."""
    pointers: dict[Buffer, str] = field(default_factory=dict)
    """Global buffer -> name of its pointer argument (for a FAMILY: of a table of addresses)."""
    tables: dict[tuple[Index, ...], str] = field(default_factory=dict)
    searches: dict[Index, str] = field(default_factory=dict)
    """Length that is searched -> name of the constexpr that holds the number of halvings."""
    sizes: dict[str, None] = field(default_factory=dict)
    rows: dict[Buffer, str] = field(default_factory=dict)
    """ROW buffer -> the tensor that holds it."""
    stored: dict[Buffer, tuple[str, tuple[Index, ...], tuple[Var, ...]]] = field(default_factory=dict)
    """Global buffer that this program wrote -> the tensor that it stored, where, and over which axes of the pass."""

    spans: dict[tuple[Index, int], str] = field(default_factory=dict)
    """Run-time extent, and the least width for it -> name of the constexpr that holds the width of its tile."""

    def span(self, extent: Index, least: int = 1) -> str:
        """The width of a tile that holds ``extent`` elements: a power of two, a literal if it is known now."""
        if extent.constant is not None:
            return str(max(least, tile_width(extent.constant)))
        return self.spans.setdefault((extent, least), f"SPAN_{len(self.spans)}")

    def line(self, text: str) -> None:
        """Append a line at the present indentation."""
        self.lines.append("    " * self.indent + text)

    def fresh(self, stem: str) -> str:
        """A name that is not used yet."""
        self.counter += 1
        return f"{stem}_{self.counter}"

    def pointer(self, buffer: Buffer) -> str:
        """The argument for a buffer."""
        return self.pointers.setdefault(buffer, f"{buffer.name}_table" if buffer.members else f"{buffer.name}_ptr")


class Scope:
    """Loop variables and their texts, with the mask of each; writes expressions into a body."""

    def __init__(
        self,
        body: Body,
        names: Mapping[Var, str],
        masks: Mapping[Var, str],
        row_axes: tuple[Var, ...] = (),
    ) -> None:
        self.body = body
        self._names = dict(names)
        self._masks = dict(masks)
        self._axes = row_axes
        """The axes over which ROW buffers are held in this scope."""
        self._known: dict[tuple[Expr, str], str] = {}

    def within(self, names: Mapping[Var, str], masks: Mapping[Var, str], row_axes: tuple[Var, ...]) -> Scope:
        """This scope with more variables."""
        return Scope(self.body, {**self._names, **names}, {**self._masks, **masks}, row_axes)

    # Indices

    def index(self, index: Index, mask: str = "") -> str:
        """An index expression as text; ``mask`` guards what it reads from memory."""
        if not index.terms:
            return "0"
        parts = []
        for monomial, coefficient in index.terms:
            factors = [self._atom(atom, mask) for atom in monomial]
            if coefficient != 1 or not factors:
                factors.append(str(coefficient))
            parts.append(" * ".join(factors))
        return " + ".join(parts) if len(parts) > 1 else parts[0]

    def _atom(self, atom: Atom, mask: str) -> str:
        if isinstance(atom, Size):
            self.body.sizes[atom.name] = None
            return atom.name
        if isinstance(atom, Var):
            return self._names[atom]
        if isinstance(atom, Value):
            return self.value(atom.expr, mask)
        assert isinstance(atom, (FloorDiv, Mod))
        sign = "//" if isinstance(atom, FloorDiv) else "%"
        return f"(({self.index(atom.numerator, mask)}) {sign} ({self.index(atom.denominator, mask)}))"

    def mask_for(self, variables: frozenset[Var], extra: str = "") -> str:
        """The conjunction of the masks of some variables and of ``extra``; '' if nothing can be out of range."""
        parts = list(dict.fromkeys(self._masks[v] for v in self._names if v in variables and self._masks.get(v)))
        parts += [extra] if extra else []
        return " & ".join(f"({p})" if len(parts) > 1 else p for p in parts)

    # Expressions

    def value(self, expr: Expr, mask: str = "") -> str:
        """A name (or literal) that holds the value of an expression; loads in it are also guarded by ``mask``."""
        key = (expr, mask)
        if key not in self._known:
            text = self._text(expr, mask)
            if text.isidentifier() or isinstance(expr, Const):
                return text
            name = self.body.fresh("v")
            self.body.line(f"{name} = {text}")
            self._known[key] = name
        return self._known[key]

    def _text(self, expr: Expr, mask: str) -> str:
        if isinstance(expr, Const):
            return literal(expr)
        if isinstance(expr, Load):
            return self._load(expr, mask)
        if isinstance(expr, Cast):
            inner = self.value(expr.arg, mask)
            return f"({inner} != 0)" if expr.dtype == "bool" else f"tl.cast({inner}, {DTYPES[expr.dtype]})"
        if isinstance(expr, IndexValue):
            return f"tl.cast({self.index(expr.index, mask)}, {DTYPES[expr.dtype]})"
        if isinstance(expr, Masked):
            condition = self.value(expr.condition, mask)
            inner = f"{mask} & {condition}" if mask else condition
            return f"tl.where({condition}, {self.value(expr.value, inner)}, {self.value(expr.other, mask)})"
        if isinstance(expr, Search):
            return self._search(expr, mask)
        if isinstance(expr, TableValue):
            table = self.body.tables.setdefault(expr.values, f"table_{len(self.body.tables)}")
            return f"tl.cast(tl.load({table} + {self.index(expr.index, mask)}), {DTYPES[expr.dtype]})"
        return self._operation(expr, mask)

    def _operation(self, expr: Op, mask: str) -> str:
        if expr.name == "where":
            condition, yes, no = expr.args
            return self._choice(condition, yes, no, mask)
        argument = expr.args[0].dtype
        text = template(expr.name, argument, expr.dtype)
        if text is None:
            raise Inexpressible(f"{expr.name} of {argument}")
        names = [self.value(a, mask) for a in expr.args]
        return text.format(*names)

    def _choice(self, condition: Expr, yes: Expr, no: Expr, mask: str) -> str:
        """``where``: each side is loaded everywhere, or only where it is chosen."""
        chosen = self.value(condition, mask)
        sides = []
        for side, wanted in ((yes, chosen), (no, f"({chosen} == 0)")):
            guard = f"{mask} & {wanted}" if mask else wanted
            sides.append(self.value(side, guard if self.body.guarded and reads_memory(side) else mask))
        return f"tl.where({chosen}, {sides[0]}, {sides[1]})"

    def _load(self, expr: Load, mask: str) -> str:
        buffer = expr.buffer
        if buffer.role is Role.ROW:
            return self._row(expr)
        if buffer in self.body.stored:
            return self._stored(expr)
        guard = self.mask_for(expr.variables, mask)
        where = f", mask={guard}, other=0" if guard else ""
        return f"tl.load({self.address(buffer, expr.index, mask)}{where})"

    def address(self, buffer: Buffer, index: tuple[Index, ...], mask: str = "") -> str:
        """The address of an element."""
        pointer = self.body.pointer(buffer)
        if buffer.members:
            member = f"tl.load({pointer} + {self.index(index[0], mask)})"
            base = self.body.fresh("base")
            self.body.line(f"{base} = tl.cast({member}, tl.pointer_type({DTYPES[buffer.dtype]}))")
            return f"{base} + {self.index(flatten(index[1:], buffer.shape[1:]), mask)}"
        offset = self.index(flatten(index, buffer.shape), mask)
        return pointer if offset == "0" else f"{pointer} + {offset}"

    def _row(self, expr: Load) -> str:
        name = self.body.rows.get(expr.buffer)
        if name is None:
            raise Inexpressible(f"the row value {expr.buffer.name} is read before it is written")
        if expr.index and tuple(i.variable for i in expr.index) != self._axes:
            raise Inexpressible(f"the row value {expr.buffer.name} is read at another place than it was written")
        return name

    def _stored(self, expr: Load) -> str:
        """What the program itself has stored is still in registers: other threads' stores could not be seen."""
        name, index, axes = self.body.stored[expr.buffer]
        if len(axes) == len(self._axes):
            renamed = dict(zip(axes, map(Index.of, self._axes), strict=True))
            if tuple(i.substitute(renamed) for i in index) == expr.index:
                return name
        raise Inexpressible(f"{expr.buffer.name} is read at another place than it was written")

    @property
    def axes(self) -> tuple[Var, ...]:
        """The axes of the pass."""
        return self._axes

    def _search(self, expr: Search, mask: str) -> str:
        """A binary search without branches: the part that is left halves alike for every element of the tile, so that
        a step is one load, one comparison and one choice."""
        body = self.body
        value = self.value(expr.value, mask)
        longest = expr.sorted.shape[-1]
        halvings = body.searches.setdefault(longest, f"halvings_{len(body.searches)}")
        guard = self.mask_for(expr.variables, mask)
        base = self.address(expr.sorted, (*expr.row, Index()), mask)
        place, left, half, found, go = (body.fresh(s) for s in ("place", "left", "half", "found", "go"))
        # As many steps as the longest search needs: a shorter one has nothing left in the last of them.
        live = "" if expr.length == longest else f"({half} > 0)"
        guards = " & ".join(part for part in (live, f"({guard})" if guard else "") if part)
        body.line(f"{place} = tl.where({value} == {value}, 0, 0)")
        body.line(f"{left} = {self.index(expr.length, mask)}")
        body.line(f"for _ in tl.static_range({halvings}):")
        body.indent += 1
        body.line(f"{half} = ({left} + 1) >> 1")
        masked = f", mask={guards}, other=0" if guards else ""
        body.line(f"{found} = tl.load({base} + ({place} + {half} - 1){masked})")
        if expr.sorted.dtype in ("float16", "bfloat16"):
            body.line(f"{found} = tl.cast({found}, tl.float32)")
        compare = "<=" if expr.right else "<"
        nan = f" | ({value} != {value})" if expr.value.dtype.startswith("float") else ""
        body.line(f"{go} = (({found} {compare} {value}){nan}){f' & {live}' if live else ''}")
        body.line(f"{place} = tl.where({go}, {place} + {half}, {place})")
        body.line(f"{left} = {left} - {half}")
        body.indent -= 1
        return f"tl.cast({place}, {DTYPES[expr.dtype]})"


def reads_memory(expr: Expr) -> bool:
    """True if an expression loads from a global buffer."""
    return any(load.buffer.role is not Role.ROW for load in loads(expr))


def tile_width(width: int) -> int:
    """The least power of two that holds a row."""
    return 1 << max(0, width - 1).bit_length()


def literal(constant: Const) -> str:
    """A literal; infinities and NaN as Triton accepts them."""
    value = constant.value
    if isinstance(value, float) and not math.isfinite(value):
        return f'float("{value}")'
    return repr(value)
