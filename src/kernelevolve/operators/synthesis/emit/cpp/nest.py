"""Scopes of a loop nest: each value is computed in the outermost scope in which all that it depends on is known."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from kernelevolve.operators.synthesis.buffer import Buffer, Role
from kernelevolve.operators.synthesis.dtype import FLOATING
from kernelevolve.operators.synthesis.emit.cpp.operations import (
    STORAGE_TYPES,
    VALUE_TYPES,
    converted,
    literal,
    loaded,
    operation,
)
from kernelevolve.operators.synthesis.emit.cpp.text import Text
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
from kernelevolve.operators.synthesis.index import Atom, FloorDiv, Index, Mod, Size, Var, non_negative
from kernelevolve.operators.synthesis.layout import flatten, strides_of
from kernelevolve.operators.synthesis.traversal import children, indices, walk


class Names:
    """Identifiers of one function: buffers, fresh temporaries."""

    def __init__(self, taken: Iterable[str]) -> None:
        self._next: Counter[str] = Counter()
        self._taken = frozenset(taken)
        self.tables: dict[tuple[Index, ...], str] = {}
        """Short integer tables that the function defines at its head."""

    def fresh(self, stem: str) -> str:
        """``stem_0``, ``stem_1`` …"""
        while True:
            number = self._next[stem]
            self._next[stem] += 1
            if f"{stem}_{number}" not in self._taken:
                return f"{stem}_{number}"


class Scope:
    """The body of one loop (or of the function): known variables, and the text of its declarations.

    ``barrier`` scopes are not left by loads from memory that the kernel itself writes.
    """

    def __init__(
        self, names: Names, text: Text, parent: Scope | None = None, variables: Iterable[Var] = (), *,
        barrier: bool = False,
    ) -> None:  # fmt: skip
        self.names = names
        self.text = text
        self.parent = parent
        self.variables: frozenset[Var] = frozenset(variables) | (parent.variables if parent else frozenset())
        self.guarded = False
        """True while the text of a conditional value is made: nothing may be computed ahead of the condition."""
        self.barrier = barrier
        self.known: dict[Expr, str] = {}
        self.declared: set[Buffer] = set()
        """ROW buffers that are variables of this scope."""
        self.pointers: dict[tuple[str, Index], str] = {}
        self.uses: Counter[Expr] = parent.uses if parent else Counter()
        self.written: set[Buffer] = parent.written if parent else set()
        self.spelling: dict[Var, str] = dict(parent.spelling) if parent else {}
        self.storage: dict[Buffer, tuple[str, tuple[Index, ...]]] = parent.storage if parent else {}
        """Buffer -> name of its pointer and its shape there (ROW buffers may have got a leading dimension)."""

    def inner(self, variables: Iterable[Var] = (), *, barrier: bool = False) -> Scope:
        """A scope inside this one, written one level deeper."""
        return Scope(self.names, Text(self.text.depth + 1), self, variables, barrier=barrier)

    def count(self, expressions: Iterable[Expr]) -> None:
        """Tell how often expressions will be used, so that what is used twice gets a name."""
        for expression in expressions:
            self.uses.update(walk(expression))

    # Values

    def value(self, expr: Expr) -> str:
        """Text for a value; it may have been given a name in this or an outer scope."""
        held = self._known(expr)
        if held is not None:
            return held
        if self.guarded:
            return self._inline(expr)
        if isinstance(expr, Const):
            return literal(expr)
        if isinstance(expr, IndexValue) and not self._nameworthy(expr):
            return self._index_value(expr)
        if isinstance(expr, Cast) and VALUE_TYPES[expr.dtype] == VALUE_TYPES[expr.arg.dtype]:
            return self.value(expr.arg)
        home = self._home(expr)
        if home is not self:
            return home.named(expr) if not isinstance(expr, (Const, IndexValue)) else home._spelled(expr)
        if self._nameworthy(expr):
            return self.named(expr)
        return self._spelled(expr)

    def named(self, expr: Expr) -> str:
        """The value in a variable of this scope."""
        held = self._known(expr)
        if held is not None:
            return held
        text = self._spelled(expr)
        stem = expr.name if isinstance(expr, Op) else expr.buffer.name if isinstance(expr, Load) else "value"
        if stem in ("and", "or", "xor", "not"):
            stem = "mask"
        name = self.names.fresh(stem)
        self.text.line(f"const {VALUE_TYPES[expr.dtype]} {name} = {_bare(text)};")
        self.known[expr] = name
        return name

    def _known(self, expr: Expr) -> str | None:
        scope: Scope | None = self
        while scope is not None:
            if expr in scope.known:
                return scope.known[expr]
            scope = scope.parent
        return None

    def _nameworthy(self, expr: Expr) -> bool:
        return self.uses[expr] > 1 and not isinstance(expr, (Const, IndexValue))

    def _home(self, expr: Expr) -> Scope:
        """The outermost scope that knows all variables of a value, and may compute it."""
        scope = self
        pinned = {e.buffer for e in walk(expr) if isinstance(e, Load) and self._pinned(e.buffer)}
        while scope.parent is not None and expr.variables <= scope.parent.variables:
            if pinned and (scope.barrier or pinned & scope.declared):
                break
            scope = scope.parent
        return scope

    def _pinned(self, buffer: Buffer) -> bool:
        return buffer.role is Role.ROW or buffer in self.written

    def _spelled(self, expr: Expr) -> str:
        if isinstance(expr, Const):
            return literal(expr)
        if isinstance(expr, IndexValue):
            return self._index_value(expr)
        if isinstance(expr, Cast):
            return converted(self.value(expr.arg), expr.arg.dtype, expr.dtype)
        if isinstance(expr, Load):
            return loaded(expr.buffer.dtype, self.element(expr.buffer, expr.index))
        if isinstance(expr, Masked):
            condition = self.value(expr.condition)
            return f"({condition} ? {self._guarded(expr.value)} : {self.value(expr.other)})"
        if isinstance(expr, TableValue):
            table = self.names.tables.setdefault(expr.values, f"table_{len(self.names.tables)}")
            return f"{table}[{self.index(expr.index)}]"
        if isinstance(expr, Search):
            return self._search(expr)
        if expr.name == "div" and expr.dtype in FLOATING:
            divided = self._by_reciprocal(expr)
            if divided is not None:
                return divided
        # Both sides of a selection are computed ahead of it: a load in one would become conditional, and scalar.
        ahead = expr.name == "where" and not self.guarded
        arguments = [self.named(a) if ahead and _computes(a) else self.value(a) for a in expr.args]
        bounded = isinstance(expr.args[-1], Const)
        return operation(expr.name, expr.args[-1].dtype, expr.dtype, arguments, bounded)

    def _by_reciprocal(self, expr: Op) -> str | None:
        """A quotient whose divisor is the same all along a loop, as a product with its reciprocal."""
        divisor = expr.args[1]
        home = self._home(divisor)
        if home is self or self.guarded:
            return None
        if isinstance(divisor, Const):
            if not divisor.value:
                return None
            text = literal(Const(1.0 / float(divisor.value), divisor.dtype))
        else:
            text = home.named(Op("reciprocal", (divisor,), divisor.dtype))
        return f"({self.value(expr.args[0])} * {text})"

    def _guarded(self, expr: Expr) -> str:
        """A value under a condition: loads in it must not be taken out of the condition."""
        if any(isinstance(e, (Load, Search)) for e in walk(expr)):
            self.guarded, before = True, self.guarded
            text = self._inline(expr)
            self.guarded = before
            return text
        return self.value(expr)

    def _inline(self, expr: Expr) -> str:
        held = self._known(expr)
        if held is not None:
            return held
        if isinstance(expr, Op):
            arguments = [self._inline(a) for a in expr.args]
            return operation(expr.name, expr.args[-1].dtype, expr.dtype, arguments, isinstance(expr.args[-1], Const))
        if isinstance(expr, Cast):
            return converted(self._inline(expr.arg), expr.arg.dtype, expr.dtype)
        return self._spelled(expr)

    def _search(self, expr: Search) -> str:
        """One search on its own; sweeps do those of neighbouring points together."""
        table = self.row_pointer(expr.sorted, expr.row)
        right = "true" if expr.right else "false"
        found = self.names.fresh("found")
        kind = VALUE_TYPES[expr.value.dtype]
        self.text.line(f"const {kind} {found}_for[1] = {{{self.value(expr.value)}}};")
        self.text.line(f"int32_t {found}_at[1];")
        self.text.line(f"ke::search<1, {right}>({table}, {self.index(expr.length)}, {found}_for, {found}_at);")
        return converted(f"{found}_at[0]", "int32", expr.dtype)

    # Positions

    def _index_value(self, expr: IndexValue) -> str:
        text = self.index(expr.index)
        return text if expr.dtype == "int64" else converted(f"({text})" if " " in text else text, "int64", expr.dtype)

    def index(self, index: Index) -> str:
        """Text for an integer expression."""
        if not index.terms:
            return "0"
        parts: list[str] = []
        for monomial, coefficient in sorted(index.terms, key=lambda t: (not t[0], str(t[0]))):
            names = [self._atom(a) for a in monomial]
            if abs(coefficient) != 1 or not names:
                names.append(str(abs(coefficient)))
            sign = "-" if coefficient < 0 else "+" if parts else ""
            parts.append(f"{sign}{' ' if parts else ''}{' * '.join(names)}")
        return " ".join(parts)

    def _atom(self, atom: Atom) -> str:
        if isinstance(atom, Size):
            return atom.name
        if isinstance(atom, Var):
            return self.spelling.get(atom, atom.name)
        if isinstance(atom, Value):
            return self.value(atom.expr)
        assert isinstance(atom, (FloorDiv, Mod))
        top, bottom = self.index(atom.numerator), self.index(atom.denominator)
        if not non_negative(atom.numerator):
            return f"ke::{'floor_divide' if isinstance(atom, FloorDiv) else 'remainder'}<int64_t>({top}, {bottom})"
        sign = "/" if isinstance(atom, FloorDiv) else "%"
        top = f"({top})" if " " in top else top
        bottom = f"({bottom})" if " " in bottom else bottom
        return f"({top} {sign} {bottom})"

    def element(self, buffer: Buffer, index: tuple[Index, ...]) -> str:
        """``pointer[offset]``, with what is the same all along the innermost loop moved into the pointer."""
        name, shape = self.storage[buffer]
        if buffer.members:
            return self._member_element(buffer, index)
        if not shape:
            return name if buffer.role is Role.ROW else f"{name}[0]"
        offset = flatten(index, shape)
        pointer, rest = self._pointer(name, offset, STORAGE_TYPES[buffer.dtype], buffer)
        return f"{pointer}[{_bare(self.index(rest))}]"

    def _pointer(self, name: str, offset: Index, kind: str, buffer: Buffer) -> tuple[str, Index]:
        """A pointer from an outer scope and what is left of the offset."""
        if self.parent is None:
            return name, offset
        outer = Index(tuple((m, c) for m, c in offset.terms if self._movable(Index(((m, c),)))))
        if not outer.variables and outer.constant is not None:
            outer = Index()
        if not any(m for m, _ in outer.terms):
            return name, offset
        home = self
        while home.parent is not None and outer.variables <= home.parent.variables:
            home = home.parent
        key = (name, outer)
        if key not in home.pointers:
            fresh = home.names.fresh(f"{name}_at")
            constant = "" if buffer.role is Role.ROW or buffer in self.written else "const "
            home.text.line(f"{constant}{kind}* __restrict {fresh} = {name} + {home.index(outer)};")
            home.pointers[key] = fresh
        return home.pointers[key], offset - outer

    def _movable(self, term: Index) -> bool:
        assert self.parent is not None
        if not term.variables <= self.parent.variables:
            return False
        reads = [e for a in term.atoms for e in _reads(a)]
        return not any(isinstance(e, Load) and self._pinned(e.buffer) for e in reads)

    def row_pointer(self, buffer: Buffer, row: tuple[Index, ...]) -> str:
        """Pointer to the first element of a row of the last dimension."""
        name, shape = self.storage[buffer]
        if buffer.members:
            return f"{name}[{self.index(row[0])}]"
        offset = flatten((*row, Index()), shape)
        return f"{name} + {self.index(offset)}" if offset.terms else name

    def _member_element(self, buffer: Buffer, index: tuple[Index, ...]) -> str:
        name, shape = self.storage[buffer]
        offset = Index()
        for i, stride in zip(index[1:], strides_of(shape[1:]), strict=True):
            offset = offset + i * stride
        member = index[0]
        home = self
        while home.parent is not None and member.variables <= home.parent.variables:
            home = home.parent
        key = (name, member)
        if key not in home.pointers:
            fresh = home.names.fresh(f"{name}_at")
            kind = STORAGE_TYPES[buffer.dtype]
            home.text.line(f"const {kind}* __restrict {fresh} = {name}[{home.index(member)}];")
            home.pointers[key] = fresh
        return f"{home.pointers[key]}[{self.index(offset)}]"


def _computes(expr: Expr) -> bool:
    """True for a value that takes a load or arithmetic."""
    return not isinstance(expr, (Const, IndexValue)) and not (isinstance(expr, Cast) and not _computes(expr.arg))


def _reads(atom: Atom) -> list[Expr]:
    if isinstance(atom, Value):
        return list(walk(atom.expr))
    if isinstance(atom, (FloorDiv, Mod)):
        return [e for a in atom.numerator.atoms for e in _reads(a)]
    return []


def _bare(text: str) -> str:
    """Without one pair of brackets round everything."""
    if not (text.startswith("(") and text.endswith(")")):
        return text
    depth = 0
    for at, character in enumerate(text):
        depth += (character == "(") - (character == ")")
        if depth == 0 and at < len(text) - 1:
            return text
    return text[1:-1]


def searches_in(expressions: Iterable[Expr]) -> list[Search]:
    """All searches, inner ones first, each once."""
    found: dict[Search, None] = {}

    def visit(expr: Expr) -> None:
        for child in children(expr):
            visit(child)
        for index in indices(expr):
            for atom in index.atoms:
                if isinstance(atom, Value):
                    visit(atom.expr)
        if isinstance(expr, Search):
            found.setdefault(expr)

    for expression in expressions:
        visit(expression)
    return list(found)
