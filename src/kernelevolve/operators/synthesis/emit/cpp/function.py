"""One kernel as one C function: its parameters, its head, and the loops over rows that run in parallel."""

from __future__ import annotations

from collections.abc import Sequence

from kernelevolve.operators.synthesis.buffer import Buffer
from kernelevolve.operators.synthesis.emit.cpp.nest import Names, Scope
from kernelevolve.operators.synthesis.emit.cpp.operations import STORAGE_TYPES
from kernelevolve.operators.synthesis.emit.cpp.text import Text
from kernelevolve.operators.synthesis.expr import Expr, IndexValue, Load, Search, TableValue
from kernelevolve.operators.synthesis.index import Index, Size, Var
from kernelevolve.operators.synthesis.kernels import LoopKernel, Pass, targets_of
from kernelevolve.operators.synthesis.layout import product_of, unflatten
from kernelevolve.operators.synthesis.traversal import walk


class Function:
    """The text of one kernel in the making."""

    def __init__(self, kernel: LoopKernel, body: LoopKernel | None = None) -> None:
        """``body`` is the kernel as it is written out, if scratch has taken the place of results in it."""
        self.kernel = kernel if body is None else body
        buffers = (*kernel.reads(), *kernel.writes(), *self.kernel.locals)
        self.names = Names({b.name for b in buffers} | {kernel.name})
        self.scope = Scope(self.names, Text(1))
        self.body = Text(1)
        self.reads = kernel.reads()
        self.writes = kernel.writes()
        for buffer in (*self.reads, *self.writes):
            self.scope.storage[buffer] = (buffer.name, buffer.shape)
        self.sizes = _sizes(kernel)

    @property
    def parameters(self) -> tuple[Buffer, ...]:
        """Buffers in the order of the parameters: read ones, then written ones that are not read."""
        return (*self.reads, *(b for b in self.writes if b not in self.reads))

    def signature(self) -> str:
        """The head of the function."""
        parts = []
        for buffer in self.parameters:
            kind = STORAGE_TYPES[buffer.dtype]
            if buffer.members:
                parts.append(f"const {kind}* const* {buffer.name}")
            elif buffer in self.writes:
                parts.append(f"{kind}* __restrict {buffer.name}")
            else:
                parts.append(f"const {kind}* __restrict {buffer.name}")
        parts += [f"int64_t {size.name}" for size in self.sizes]
        return f'extern "C" void {self.kernel.name}({", ".join(parts)})'

    def finish(self) -> str:
        """The whole function."""
        text = Text()
        for line in _comment(self.kernel):
            text.line(f"// {line}")
        with text.block(self.signature()):
            for values, name in self.names.tables.items():
                numbers = ", ".join(self.scope.index(v) for v in values)
                text.line(f"const int64_t {name}[] = {{{numbers}}};")
            text.extend(self.scope.text)
            text.extend(self.body)
        return str(text)

    def row_scope(self, rows: Sequence[Var], counter: str, depth: int) -> Scope:
        """The scope of one row, with the row axes taken from a flat counter."""
        scope = Scope(self.names, Text(depth), self.scope, rows)
        if len(rows) == 1:
            scope.spelling[rows[0]] = counter
            return scope
        shape = tuple(r.extent for r in rows)
        flat = Var(counter, product_of(shape))
        inner = Scope(self.names, scope.text, self.scope, [flat])
        for row, index in zip(rows, unflatten(Index.of(flat), shape), strict=True):
            scope.text.line(f"const int64_t {row.name} = {inner.index(index)};")
        return scope

    def declare_locals(self, scope: Scope) -> None:
        """ROW buffers on the stack of the row."""
        for buffer in self.kernel.locals:
            if buffer not in scope.storage:
                scope.storage[buffer] = (buffer.name, buffer.shape)
                scope.declared.add(buffer)
                count = product_of(buffer.shape)
                kind = STORAGE_TYPES[buffer.dtype]
                if buffer.shape:
                    scope.text.line(f"alignas(64) {kind} {buffer.name}[{scope.index(count)}];")
                else:
                    scope.text.line(f"{kind} {buffer.name};")


def _comment(kernel: LoopKernel) -> list[str]:
    """Which nodes of the reference a kernel computes, wrapped."""
    words = f"Computes {', '.join(kernel.origins)}.".split(" ")
    lines, line = [], ""
    for word in words:
        if len(line) + len(word) > 112:
            lines.append(line)
            line = ""
        line = f"{line} {word}".strip()
    return [*lines, line]


def _sizes(kernel: LoopKernel) -> tuple[Size, ...]:
    """Runtime sizes that the function needs, by name."""
    found: set[Size] = set()

    def note(index: Index) -> None:
        found.update(index.sizes)

    for row in kernel.rows:
        note(row.extent)
    for step in kernel.passes:
        axes = (*step.axes, *step.reduced) if isinstance(step, Pass) else (*step.columns, *step.contracted)
        for axis in axes:
            note(axis.extent)
        for target in targets_of(step):
            for index in (*target.index, *target.buffer.shape):
                note(index)
    for expr in kernel.expressions():
        for e in walk(expr):
            for index in _indices_of(e):
                note(index)
    return tuple(sorted(found, key=lambda s: (len(s.name), s.name)))


def _indices_of(expr: Expr) -> list[Index]:
    if isinstance(expr, Load):
        return [*expr.index, *expr.buffer.shape]
    if isinstance(expr, Search):
        return [*expr.row, expr.length, *expr.sorted.shape]
    if isinstance(expr, IndexValue):
        return [expr.index]
    if isinstance(expr, TableValue):
        return [expr.index, *expr.values]
    return []
