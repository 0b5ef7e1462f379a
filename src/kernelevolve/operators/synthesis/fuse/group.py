"""Groups: operations that will run in one kernel, all re-expressed over the rows of the group."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from kernelevolve.operators.synthesis.buffer import Buffer
from kernelevolve.operators.synthesis.expr import Expr, Load
from kernelevolve.operators.synthesis.fuse.solve import solve
from kernelevolve.operators.synthesis.index import Index, Var
from kernelevolve.operators.synthesis.ir import (
    Pointwise,
    Product,
    Reduction,
    Target,
    expressions,
    read_buffers,
    written_buffers,
)
from kernelevolve.operators.synthesis.layout import flatten, product_of
from kernelevolve.operators.synthesis.traversal import children, walk

Member = Pointwise | Reduction | Product


@dataclass
class Group:
    """``rows`` are shared by all members; ``flexible`` while only pointwise members have joined and the whole iteration
    space counts as rows."""

    rows: tuple[Var, ...]
    members: list[Member] = field(default_factory=list)
    flexible: bool = False

    @property
    def produced(self) -> frozenset[Buffer]:
        """Buffers that members write."""
        return frozenset(b for m in self.members for b in written_buffers(m))

    def targets(self, buffer: Buffer) -> list[Target]:
        """Where members write a buffer."""
        return [t for m in self.members for t in targets(m) if t.buffer == buffer]

    def row_of(self, buffer: Buffer, position: Sequence[Index]) -> tuple[Index, ...] | None:
        """Which row wrote the element at a position of a buffer; None if that cannot be told."""
        answers = set()
        for target in self.targets(buffer):
            answer = _row_of(target, position, self.rows)
            if answer is None:
                return None
            answers.add(answer)
        return answers.pop() if len(answers) == 1 else None


def targets(member: Member) -> tuple[Target, ...]:
    """Everything that a member writes."""
    return member.targets if isinstance(member, Reduction) else (member.target,)


def _row_of(target: Target, position: Sequence[Index], rows: Sequence[Var]) -> tuple[Index, ...] | None:
    places = [Var(f"q{d}", size) for d, size in enumerate(target.buffer.shape)]
    equations = [(t, Index.of(p) if t.variables else t) for t, p in zip(target.index, places, strict=True)]
    unknown = sorted({v for t in target.index for v in t.variables}, key=lambda v: v.name)
    solution = solve(equations, unknown)
    if solution is None or any(r not in solution for r in rows):
        return None
    exact = dict(zip(places, position, strict=True))
    return tuple(solution[r].substitute(exact) for r in rows)


def reads(member: Member, buffers: frozenset[Buffer]) -> list[Load]:
    """All loads of a member from some buffers."""
    found = []
    for expr in expressions(member):
        found += [e for e in walk(expr) if isinstance(e, Load) and e.buffer in buffers]
    return found


def replaced(member: Member, mapping: Mapping[Var, Index]) -> Member:
    """The member with loop variables substituted in its expressions and targets; the axes are for the caller to set."""
    if isinstance(member, Pointwise):
        return replace(member, value=member.value.substitute(mapping), target=member.target.substitute(mapping))
    if isinstance(member, Reduction):
        segment = member.segment
        if segment is not None:
            segment = replace(segment, begin=segment.begin.substitute(mapping), end=segment.end.substitute(mapping))
        return replace(
            member, value=member.value.substitute(mapping), segment=segment,
            targets=tuple(t.substitute(mapping) for t in member.targets),
        )  # fmt: skip
    return replace(
        member, left=member.left.substitute(mapping), right=member.right.substitute(mapping),
        target=member.target.substitute(mapping),
    )  # fmt: skip


def seed(member: Member) -> Group:
    """A group that begins with this member."""
    if isinstance(member, Pointwise):
        rows = tuple(Var(f"r{d}", a.extent) for d, a in enumerate(member.axes))
        mapping = {a: Index.of(r) for a, r in zip(member.axes, rows, strict=True)}
        first = replaced(member, mapping)
        assert isinstance(first, Pointwise)
        return Group(rows, [replace(first, axes=())], flexible=True)
    if isinstance(member, Product):
        lead = (*member.batch, *member.rows)
        rows = tuple(Var(f"r{d}", a.extent) for d, a in enumerate(lead))
        mapping = {a: Index.of(r) for a, r in zip(lead, rows, strict=True)}
        return Group(rows, [_canonical(member, mapping, ())])
    kept, mapping = _row_axes(member)
    return Group(kept, [_canonical(member, mapping, ())])


def _row_axes(member: Reduction) -> tuple[tuple[Var, ...], dict[Var, Index]]:
    """The kept axes that become rows: all, or all but one along which memory is contiguous."""
    lead = list(member.axes)
    vector = _contiguous_axis(member)
    mapping: dict[Var, Index] = {}
    if vector in lead:
        lead.remove(vector)
        if not lead and member.segment is None:
            block = _block_of(vector.extent)
            if block is not None:
                outer, inner = Var("r0", vector.extent // block), Var(f"{vector.name}_in", Index.of(block))
                return (outer,), {vector: Index.of(outer) * block + inner}
    rows = tuple(Var(f"r{d}", a.extent) for d, a in enumerate(lead))
    mapping.update({a: Index.of(r) for a, r in zip(lead, rows, strict=True)})
    return rows, mapping


def _block_of(extent: Index) -> int | None:
    """A block of columns that divides the extent: long enough to be read in whole cache lines."""
    if extent.constant is None:
        return None
    return next((b for b in (128, 64, 96, 32, 48, 16) if extent.constant % b == 0 and extent.constant > b), None)


def _contiguous_axis(member: Reduction) -> Var | None:
    """The axis along which most values are contiguous in memory; the innermost reduced one if several are."""
    votes: dict[Var, int] = {}
    candidates = (*member.reduced[::-1], *member.axes[::-1])
    pending: list[Expr] = [member.value]
    while pending:
        e = pending.pop()
        pending += children(e)
        if not isinstance(e, Load):
            continue
        offset = flatten(e.index, e.buffer.shape)
        for axis in candidates:
            if offset.coefficient(axis) == Index.of(1):
                votes[axis] = votes.get(axis, 0) + 1
    return max(candidates, key=lambda a: votes.get(a, 0)) if votes else None


def _canonical(member: Member, solved: Mapping[Var, Index], extra: Sequence[Var]) -> Member:
    """The member with its remaining axes named by their place, so that equal spaces of members are equal."""
    taken = set(solved)
    if isinstance(member, Product):
        columns, contracted = member.columns, member.contracted
        kept = tuple(Var(f"i{n}", a.extent) for n, a in enumerate(columns))
        inner = tuple(Var(f"k{n}", a.extent) for n, a in enumerate(contracted))
        mapping = {**solved, **_renaming((*columns, *contracted), (*kept, *inner))}
        result = replaced(member, mapping)
        assert isinstance(result, Product)
        return replace(result, batch=(), rows=(), columns=kept, contracted=inner)
    free = sorted({v for value in solved.values() for v in value.variables if v.name.endswith("_in")}, key=str)
    axes = (*(a for a in member.axes if a not in taken), *free, *extra)
    reduced = member.reduced if isinstance(member, Reduction) else ()
    kept = tuple(Var(f"i{n}", a.extent) for n, a in enumerate(axes))
    inner = tuple(Var(f"i{n + len(kept)}", a.extent) for n, a in enumerate(reduced))
    renaming = _renaming((*axes, *reduced), (*kept, *inner))
    mapping = {**renaming, **{v: i.substitute(renaming) for v, i in solved.items()}}
    result = replaced(member, mapping)
    if isinstance(result, Reduction):
        segment = result.segment
        if segment is not None:
            segment = replace(segment, var=inner[reduced.index(segment.var)])
        return replace(result, axes=kept, reduced=inner, segment=segment)
    assert isinstance(result, Pointwise)
    return replace(result, axes=kept)


def _renaming(old: Sequence[Var], new: Sequence[Var]) -> dict[Var, Index]:
    return {a: Index.of(b) for a, b in zip(old, new, strict=True)}


def joined(group: Group, member: Member, shared: frozenset[Buffer]) -> Group | None:
    """The group with a member that reads some of its buffers (``shared``), or None if rows would have to talk."""
    base = group
    if group.flexible and not isinstance(member, Pointwise):
        made = _fixed_by(group, member, shared)
        if made is None:
            return None
        base, member = made
        return Group(base.rows, [*base.members, member])
    adopted = _adopted(base, member, shared)
    if adopted is None:
        return None
    flexible = base.flexible and not adopted.axes
    return Group(base.rows, [*base.members, adopted], flexible)


def _adopted(group: Group, member: Member, shared: frozenset[Buffer]) -> Member | None:
    """The member over the rows of the group: each of its points belongs to the row whose values it reads."""
    fresh_made: list[Var] = []

    def fresh(extent: Index) -> Var:
        fresh_made.append(Var(f"{member.name}_f{len(fresh_made)}_in", extent))
        return fresh_made[-1]

    unknown = _row_candidates(member)
    loads = reads(member, shared)
    solution: dict[Var, Index] | None = None
    for load in loads:
        rows = group.row_of(load.buffer, load.index)
        if rows is None:
            return None
        fresh_made.clear()
        found = solve([(e, Index.of(r)) for e, r in zip(rows, group.rows, strict=True)], unknown, fresh)
        if found is not None:
            solution = found
            break
    if solution is None or (group.rows and not solution):
        return None
    if isinstance(member, Product) and set(solution) != set(unknown):
        return None
    # A row per channel, say, would walk the rest of a bigger tensor across its layout.
    if group.flexible and set(unknown[: len(solution)]) != set(solution):
        return None
    if _points(unknown) != _points([*group.rows, *fresh_made, *(v for v in unknown if v not in solution)]):
        return None
    adopted = _canonical(member, solution, ())
    # Every value of the group that the member reads must come from its own row.
    for load in reads(adopted, shared):
        if group.row_of(load.buffer, load.index) != tuple(Index.of(r) for r in group.rows):
            return None
    if isinstance(adopted, Product) and any(b in shared for b in _buffers_of_right(adopted)):
        return None
    return adopted


def _points(variables: Sequence[Var]) -> Index:
    return product_of(v.extent for v in variables)


def _row_candidates(member: Member) -> tuple[Var, ...]:
    return (*member.batch, *member.rows) if isinstance(member, Product) else member.axes


def _buffers_of_right(product: Product) -> frozenset[Buffer]:
    return read_buffers(replace(product, left=product.right))


def _fixed_by(group: Group, member: Member, shared: frozenset[Buffer]) -> tuple[Group, Member] | None:
    """A pointwise group in the space of a reduction or product that reads it; both over the rows of the latter."""
    start = seed(member)
    (anchor,) = start.members
    space = (*start.rows, *_inner(anchor))
    for load in reads(anchor, shared):
        if isinstance(anchor, Product) and load.buffer in _buffers_of_right(anchor):
            return None
        where = group.row_of(load.buffer, load.index)
        if where is None:
            continue
        back = solve([(e, Index.of(r)) for e, r in zip(where, group.rows, strict=True)], space)
        # A one-to-one map between the two spaces: every point of the anchor is computed by one point of the group.
        if back is None or set(back) != set(space) or _points(space) != _points(group.rows):
            continue
        mapping = dict(zip(group.rows, where, strict=True))
        moved = [_moved(m, mapping, start.rows) for m in group.members]
        candidate = Group(start.rows, moved)
        rows = tuple(Index.of(r) for r in start.rows)
        if all(candidate.row_of(x.buffer, x.index) == rows for m in [*moved, anchor] for x in reads(m, shared)):
            return candidate, anchor
    return None


def _inner(member: Member) -> tuple[Var, ...]:
    if isinstance(member, Product):
        return member.contracted
    return (*member.axes, *(member.reduced if isinstance(member, Reduction) else ()))


def _moved(member: Member, mapping: Mapping[Var, Index], rows: Sequence[Var]) -> Member:
    moved = replaced(member, mapping)
    assert isinstance(moved, Pointwise)
    inner = sorted({v for i in moved.target.index for v in i.variables} - set(rows), key=lambda v: v.name)
    return replace(moved, axes=tuple(inner))
