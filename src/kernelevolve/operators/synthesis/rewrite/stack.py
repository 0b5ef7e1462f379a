"""Stacking: operations alike but for their buffers and constants become one operation with one more axis.

A reference that loops over tables or features gives one operation for each. Stacked, they run in one parallel region:
the new axis chooses the buffer from a family and the constants from short tables.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise

from kernelevolve.operators.synthesis.buffer import Buffer, Role
from kernelevolve.operators.synthesis.dtype import INTEGRAL, DType
from kernelevolve.operators.synthesis.emit.emitter import Traits
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
    cast,
)
from kernelevolve.operators.synthesis.index import Index, Var
from kernelevolve.operators.synthesis.ir import (
    Operation,
    Pointwise,
    Program,
    Reduction,
    Segment,
    Target,
    written_buffers,
)
from kernelevolve.operators.synthesis.plan import Planner

_FEWEST = 3


class _Different(Exception):
    """The operations are not alike."""


def alike_stacked(program: Program, planner: Planner, traits: Traits) -> Program:
    """The program with the pieces of each concatenation stacked, where they are alike and the planner wants that."""
    if not traits.families:
        return program
    pieces: dict[Buffer, list[Operation]] = {}
    for operation in program.operations:
        for buffer in written_buffers(operation):
            pieces.setdefault(buffer, []).append(operation)
    operations = list(program.operations)
    for buffer, alike in pieces.items():
        members = [o for o in alike if isinstance(o, (Pointwise, Reduction))]
        if len(alike) < _FEWEST or len(members) != len(alike):
            continue
        try:
            stacked = _Stack(members).stacked()
        except _Different:
            continue
        if planner.choose(f"stack:{buffer.name}", ("stacked", "separate"), niche=True) == "stacked":
            last = max(operations.index(o) for o in members)
            operations[last] = stacked
            operations = [o for o in operations if all(o is not m for m in members)]
    return replace(program, operations=tuple(operations))


class _Stack:
    """Finds the one operation of which several are instances; ``axis`` is its additional loop variable."""

    def __init__(self, members: Sequence[Pointwise | Reduction]) -> None:
        self.members = members
        self.axis = Var(f"{members[0].name}_each", Index.of(len(members)))

    def stacked(self) -> Pointwise | Reduction:
        """The one operation; _Different if they are not alike."""
        first = self.members[0]
        loops = [(*m.axes, *(m.reduced if isinstance(m, Reduction) else ())) for m in self.members]
        if len({(type(m), len(m.axes), len(loop)) for m, loop in zip(self.members, loops, strict=True)}) != 1:
            raise _Different
        segments = [m.segment for m in self.members if isinstance(m, Reduction) and m.segment is not None]
        if segments and len(segments) != len(self.members):
            raise _Different
        ragged = [s.var for s in segments]
        renamed: list[dict[Var, Index]] = [{} for _ in self.members]
        shared: list[Var] = []
        for number, variables in enumerate(zip(*loops, strict=True)):
            extents = [v.extent for v in variables]
            if len(set(extents)) == 1:
                extent = extents[0]
            elif all(v in ragged for v in variables):
                extent = self._table_index(extents)
            else:
                raise _Different
            shared.append(Var(f"{first.name}_v{number}", extent))
            for mapping, variable in zip(renamed, variables, strict=True):
                mapping[variable] = Index.of(shared[-1])
        axes = tuple(shared[: len(first.axes)])
        origins = tuple(dict.fromkeys(o for m in self.members for o in m.origins))
        values = [m.value.substitute(r) for m, r in zip(self.members, renamed, strict=True)]
        if isinstance(first, Pointwise):
            targets = [
                m.target.substitute(r) for m, r in zip(self.members, renamed, strict=True) if isinstance(m, Pointwise)
            ]
            return Pointwise(first.name, (self.axis, *axes), self._target(targets), self._value(values), origins)
        reductions = [m for m in self.members if isinstance(m, Reduction)]
        if len({(m.combine, len(m.targets)) for m in reductions}) != 1 or len(first.targets) != 1:
            raise _Different
        targets = [m.targets[0].substitute(r) for m, r in zip(reductions, renamed, strict=True)]
        segment = None
        if segments:
            begins = [s.begin.substitute(r) for s, r in zip(segments, renamed, strict=True)]
            ends = [s.end.substitute(r) for s, r in zip(segments, renamed, strict=True)]
            place = loops[0].index(segments[0].var)
            segment = Segment(shared[place], self._value(begins), self._value(ends))
        return replace(
            first, axes=(self.axis, *axes), reduced=tuple(shared[len(axes) :]), value=self._value(values),
            targets=(self._target(targets),), segment=segment, origins=origins,
        )  # fmt: skip

    def _target(self, targets: Sequence[Target]) -> Target:
        if len({t.buffer for t in targets}) != 1:
            raise _Different
        return Target(targets[0].buffer, self._indices([t.index for t in targets]))

    def _value(self, values: Sequence[Expr]) -> Expr:
        first = values[0]
        if all(v == first for v in values):
            return first
        if len({(type(v), v.dtype) for v in values}) != 1:
            raise _Different
        if isinstance(first, Const):
            return self._constant([v.value for v in values if isinstance(v, Const)], first.dtype)
        if isinstance(first, IndexValue):
            return IndexValue(self._index([v.index for v in values if isinstance(v, IndexValue)]), first.dtype)
        if isinstance(first, Load):
            loads = [v for v in values if isinstance(v, Load)]
            index = self._indices([v.index for v in loads])
            family = self._family([v.buffer for v in loads])
            return Load(family, (Index.of(self.axis), *index)) if family.members else Load(family, index)
        if isinstance(first, Cast):
            return cast(self._value([v.arg for v in values if isinstance(v, Cast)]), first.dtype)
        if isinstance(first, Masked):
            masked = [v for v in values if isinstance(v, Masked)]
            condition = self._value([v.condition for v in masked])
            return Masked(condition, self._value([v.value for v in masked]), self._value([v.other for v in masked]))
        if isinstance(first, Op):
            same = [v for v in values if isinstance(v, Op) and v.name == first.name]
            if len(same) != len(values):
                raise _Different
            arguments = zip(*(v.args for v in same), strict=True)
            return Op(first.name, tuple(self._value(list(a)) for a in arguments), first.dtype)
        if isinstance(first, Search):
            return self._search([v for v in values if isinstance(v, Search)])
        raise _Different

    def _search(self, searches: list[Search]) -> Expr:
        first = searches[0]
        family = self._family([s.sorted for s in searches])
        row = self._indices([s.row for s in searches])
        length = self._index([s.length for s in searches])
        if len({s.right for s in searches}) != 1:
            raise _Different
        value = self._value([s.value for s in searches])
        row = (Index.of(self.axis), *row) if family.members else row
        return Search(family, row, length, value, first.right, first.dtype)

    def _constant(self, values: Sequence[float | int | bool], dtype: DType) -> Expr:
        if dtype not in INTEGRAL:
            raise _Different
        return IndexValue(self._table_index([Index.of(int(v)) for v in values]), dtype)

    def _family(self, buffers: list[Buffer]) -> Buffer:
        first = buffers[0]
        if all(b == first for b in buffers):
            return first
        if any(b.role not in (Role.INPUT, Role.WEIGHT, Role.CONSTANT) for b in buffers):
            raise _Different
        if len({(b.dtype, len(b.shape), b.shape[1:]) for b in buffers}) != 1 or not first.shape:
            raise _Different
        longest = max(buffers, key=lambda b: b.shape[0].constant or 0)
        shape = (Index.of(len(buffers)), *longest.shape)
        return Buffer(f"{first.name}_family", shape, first.dtype, Role.FAMILY, tuple(buffers))

    def _indices(self, indices: Sequence[tuple[Index, ...]]) -> tuple[Index, ...]:
        if len({len(i) for i in indices}) != 1:
            raise _Different
        return tuple(self._index(list(column)) for column in zip(*indices, strict=True))

    def _index(self, indices: list[Index]) -> Index:
        """One expression for all: equal in what depends on loops, a table or a line in what does not."""
        if all(i == indices[0] for i in indices):
            return indices[0]
        moving = [Index(tuple((m, c) for m, c in i.terms if Index(((m, c),)).variables)) for i in indices]
        still = [i - m for i, m in zip(indices, moving, strict=True)]
        rest = self._table_index(still)
        if all(m == moving[0] for m in moving):
            return moving[0] + rest
        values = [m.single for m in moving if isinstance(m.single, Value)]
        if len(values) < len(moving):
            raise _Different
        bound = max((v.bound for v in values), key=lambda b: b.constant or 0)
        return Index.of(Value(self._value([v.expr for v in values]), bound)) + rest

    def _table_index(self, values: list[Index]) -> Index:
        """``values[axis]``: a line if they lie on one, else an entry of a table."""
        steps = {b - a for a, b in pairwise(values)}
        if len(steps) == 1:
            return values[0] + Index.of(self.axis) * steps.pop()
        table = TableValue(tuple(values), Index.of(self.axis), "int64")
        return Index.of(Value(table, Index.of(1 << 62)))
