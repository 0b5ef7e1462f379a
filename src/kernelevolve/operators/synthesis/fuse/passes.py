"""Layout of a group: its members in as few sweeps over a row as their dependences allow."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from kernelevolve.operators.synthesis.buffer import Buffer, Role
from kernelevolve.operators.synthesis.dtype import compute_dtype
from kernelevolve.operators.synthesis.emit.emitter import Traits
from kernelevolve.operators.synthesis.expr import Expr, Load
from kernelevolve.operators.synthesis.fuse.group import Group, Member, reads, targets
from kernelevolve.operators.synthesis.fuse.solve import solve
from kernelevolve.operators.synthesis.index import Index, Var
from kernelevolve.operators.synthesis.ir import Pointwise, Product, Reduction, Segment, Target
from kernelevolve.operators.synthesis.kernels import Accumulate, Assign, LoopKernel, Pass, ProductPass
from kernelevolve.operators.synthesis.layout import product_of
from kernelevolve.operators.synthesis.traversal import rebuild, rebuild_index


@dataclass
class _Sweep:
    """A pass in the making; ``space`` is every axis that it walks, ``reduced`` those of them that are summed away."""

    space: tuple[Var, ...]
    reduced: tuple[Var, ...]
    segment: Segment | None
    members: list[Member] = field(default_factory=list)


def kernel_of(group: Group, private: frozenset[Buffer], names: set[str], traits: Traits) -> LoopKernel:
    """The kernel of a group. ``private`` are buffers that nothing outside reads: they become ROW buffers."""
    sweeps = _sweeps(group)
    exchange = _row_buffers(group, private, traits)
    passes = tuple(_pass(sweep, exchange, group.rows) for sweep in sweeps)
    origins = tuple(dict.fromkeys(o for m in group.members for o in m.origins))
    name = _name(origins, names)
    local = tuple(b for b, _ in exchange.values())
    return LoopKernel(name, group.rows, passes, local, origins, ", ".join(origins))


def _name(origins: tuple[str, ...], names: set[str]) -> str:
    """A name from the first and last node, e.g. 'add_to_mul_7'."""
    base = f"kernel_{origins[0]}" if len(origins) == 1 else f"kernel_{origins[0]}_to_{origins[-1]}"
    name, number = base, 1
    while name in names:
        number += 1
        name = f"{base}_{number}"
    names.add(name)
    return name


def _sweeps(group: Group) -> list[_Sweep]:
    """Members in passes: a member goes into the first pass of its own space that comes after all it depends on."""
    sweeps: list[_Sweep] = []
    at: dict[Buffer, int] = {}
    makers: dict[Buffer, Member] = {}
    for member in group.members:
        space, reduced, segment = _space(member)
        earliest = 0
        for buffer, maker in makers.items():
            loads = reads(member, frozenset({buffer}))
            if not loads:
                continue
            same_point = (
                isinstance(maker, Pointwise)
                and _space(maker)[0] == space
                and all(load.index == maker.target.index for load in loads)
                and not isinstance(member, Product)
            )
            earliest = max(earliest, at[buffer] if same_point else at[buffer] + 1)
        place = _place(sweeps, member, space, reduced, segment, earliest)
        for target in targets(member):
            at[target.buffer] = place
            makers[target.buffer] = member
    return sweeps


def _place(
    sweeps: list[_Sweep], member: Member, space: tuple[Var, ...], reduced: tuple[Var, ...], segment: Segment | None,
    earliest: int,
) -> int:  # fmt: skip
    if not isinstance(member, Product):
        for number in range(earliest, len(sweeps)):
            sweep = sweeps[number]
            if sweep.space != space or sweep.segment != segment or isinstance(sweep.members[0], Product):
                continue
            if reduced and sweep.reduced and reduced != sweep.reduced:
                continue
            sweep.reduced = sweep.reduced or reduced
            sweep.members.append(member)
            return number
    sweeps.append(_Sweep(space, reduced, segment, [member]))
    return len(sweeps) - 1


def _space(member: Member) -> tuple[tuple[Var, ...], tuple[Var, ...], Segment | None]:
    if isinstance(member, Product):
        return member.columns, (), None
    if isinstance(member, Reduction):
        return (*member.axes, *member.reduced), member.reduced, member.segment
    return member.axes, (), None


def _row_buffers(
    group: Group, private: frozenset[Buffer], traits: Traits
) -> dict[Buffer, tuple[Buffer, tuple[tuple[Index, ...], tuple[Var, ...]]]]:
    """For each private buffer its ROW buffer, and how its position within the row follows from a global one.

    The second part is ``(indices, places)``: the row position as expressions over ``places``, the global position.
    """
    exchange: dict[Buffer, tuple[Buffer, tuple[tuple[Index, ...], tuple[Var, ...]]]] = {}
    for buffer in sorted(private, key=lambda b: b.name):
        found = group.targets(buffer)
        if len(found) != 1:
            continue
        (target,) = found
        inner = sorted({v for i in target.index for v in i.variables} - set(group.rows), key=lambda v: v.name)
        places = tuple(Var(f"q{d}", size) for d, size in enumerate(buffer.shape))
        equations = [(t, Index.of(p) if t.variables else t) for t, p in zip(target.index, places, strict=True)]
        solution = solve(equations, sorted({v for t in target.index for v in t.variables}, key=lambda v: v.name))
        size = product_of(v.extent for v in inner).constant
        if solution is None or size is None or size > traits.row_elements:
            continue
        shape = tuple(v.extent for v in inner)
        local = Buffer(buffer.name, shape, compute_dtype(buffer.dtype), Role.ROW)
        exchange[buffer] = (local, (tuple(solution[v] for v in inner), places))
    return exchange


def _pass(
    sweep: _Sweep,
    exchange: Mapping[Buffer, tuple[Buffer, tuple[tuple[Index, ...], tuple[Var, ...]]]],
    rows: tuple[Var, ...],
) -> Pass | ProductPass:
    def place(buffer: Buffer, index: tuple[Index, ...]) -> tuple[Index, ...]:
        indices, places = exchange[buffer][1]
        where = dict(zip(places, index, strict=True))
        return tuple(i.substitute(where) for i in indices)

    def leaf(expr: Expr) -> Expr | None:
        if isinstance(expr, Load) and expr.buffer in exchange:
            index = tuple(rebuild_index(i, leaf) for i in expr.index)
            return Load(exchange[expr.buffer][0], place(expr.buffer, index))
        return None

    def local(target: Target) -> Target:
        if target.buffer in exchange:
            return Target(exchange[target.buffer][0], place(target.buffer, target.index))
        return target

    first = sweep.members[0]
    if isinstance(first, Product):
        right = rebuild(first.right, leaf)
        shared = tuple(r for r in rows if r not in right.variables)
        return ProductPass(
            first.columns, first.contracted, rebuild(first.left, leaf), right, local(first.target), shared
        )
    assigns = tuple(Assign(local(m.target), rebuild(m.value, leaf)) for m in sweep.members if isinstance(m, Pointwise))
    accumulates = tuple(
        Accumulate(tuple(map(local, m.targets)), m.combine, rebuild(m.value, leaf))
        for m in sweep.members
        if isinstance(m, Reduction)
    )
    segment = sweep.segment
    if segment is not None:
        segment = replace(segment, begin=rebuild(segment.begin, leaf), end=rebuild(segment.end, leaf))
    axes = tuple(v for v in sweep.space if v not in sweep.reduced)
    return Pass(axes, sweep.reduced, assigns, accumulates, segment)
