"""Greedy grouping of a program's operations, in data-flow order, into kernels and torch calls."""

from __future__ import annotations

from dataclasses import dataclass, field

from kernelevolve.operators.synthesis.buffer import Buffer, Role
from kernelevolve.operators.synthesis.emit.emitter import Traits
from kernelevolve.operators.synthesis.fuse.group import Group, Member, joined, seed
from kernelevolve.operators.synthesis.fuse.passes import kernel_of
from kernelevolve.operators.synthesis.ir import (
    Extern,
    Operation,
    Pointwise,
    Product,
    Program,
    Reduction,
    read_buffers,
    written_buffers,
)
from kernelevolve.operators.synthesis.kernels import Schedule, Step
from kernelevolve.operators.synthesis.layout import product_of
from kernelevolve.operators.synthesis.plan import Planner

_FEW_ROWS = 8
"""Rows below which a kernel cannot keep the cores of any device busy."""
_MUCH_WORK = 1 << 15
"""Points of an operation from which on it is worth a kernel of its own that can."""


@dataclass
class _Node:
    """One step in the making: a group, or a torch call."""

    content: Group | Extern
    inputs: set[int] = field(default_factory=set)
    """Steps that must run before."""


def schedule(program: Program, planner: Planner, traits: Traits) -> Schedule:
    """Group the operations of a program; which large operations join a group is a decision each."""
    nodes: list[_Node] = []
    writers: dict[Buffer, list[int]] = {}
    for operation in program.operations:
        needed = {w for b in read_buffers(operation) for w in writers.get(b, ())}
        place = (
            None
            if isinstance(operation, Extern)
            else _join(nodes, operation, needed, writers, program, planner, traits)
        )
        if place is None:
            nodes.append(_Node(operation if isinstance(operation, Extern) else seed(operation)))
            place = len(nodes) - 1
        nodes[place].inputs |= needed - {place}
        for buffer in written_buffers(operation):
            writers.setdefault(buffer, []).append(place)
    return Schedule(program, tuple(_steps(program, nodes, traits)), _notes(program))


def _join(
    nodes: list[_Node],
    operation: Member,
    needed: set[int],
    writers: dict[Buffer, list[int]],
    program: Program,
    planner: Planner,
    traits: Traits,
) -> int | None:
    """Try the groups whose results the operation reads, latest first; returns the one that it joined."""
    for place in sorted(needed, reverse=True):
        group = nodes[place].content
        if isinstance(group, Extern) or not _may_follow(group, operation, traits):
            continue
        if any(_reaches(nodes, other, place) for other in needed if other != place):
            continue
        shared = frozenset(
            b for b in read_buffers(operation) & group.produced if writers[b] == [place] * len(writers[b])
        )
        if any(place in writers[b] for b in read_buffers(operation) - shared if b in writers):
            continue
        result = joined(group, operation, shared)
        if result is None:
            continue
        weighty = not isinstance(operation, Pointwise) or any(isinstance(m, Product) for m in group.members)
        lonely = _loses_parallelism(result, operation, program)
        options = ("separate", "join") if lonely else ("join", "separate")
        if (weighty or lonely) and planner.choose(f"fuse:{operation.name}", options, niche=True) == "separate":
            continue
        nodes[place].content = result
        return place
    return None


def _loses_parallelism(group: Group, operation: Member, program: Program) -> bool:
    """True if much work would be done by the few rows of a group, one after the other within each."""
    inner = operation.contracted if isinstance(operation, Product) else getattr(operation, "reduced", ())
    work = program.hint(product_of(v.extent for v in (*operation.axes, *inner)))
    return work >= _MUCH_WORK and program.hint(product_of(v.extent for v in group.rows)) < _FEW_ROWS


def _may_follow(group: Group, operation: Member, traits: Traits) -> bool:
    after_product = any(isinstance(m, Product) for m in group.members)
    if isinstance(operation, Reduction) and operation.segment is not None and not traits.segments:
        return False
    return traits.rows_after_product or not after_product or isinstance(operation, Pointwise)


def _reaches(nodes: list[_Node], start: int, goal: int) -> bool:
    """True if step ``start`` needs step ``goal``, directly or not: joining would make a circle."""
    pending, seen = [start], set()
    while pending:
        at = pending.pop()
        if at == goal:
            return True
        if at not in seen:
            seen.add(at)
            pending.extend(nodes[at].inputs)
    return False


def _steps(program: Program, nodes: list[_Node], traits: Traits) -> list[Step]:
    """The steps in an order in which each runs after what it needs, original order otherwise."""
    done: list[int] = []
    placed: set[int] = set()
    while len(done) < len(nodes):
        ready = next(i for i in range(len(nodes)) if i not in placed and nodes[i].inputs <= placed)
        done.append(ready)
        placed.add(ready)
    outside: dict[int, frozenset[Buffer]] = {}
    for place in done:
        others = [nodes[i].content for i in done if i != place]
        outside[place] = frozenset(b for o in others for b in _reads_of(o))
    steps: list[Step] = []
    names: set[str] = set()
    for place in done:
        content = nodes[place].content
        if isinstance(content, Extern):
            steps.append(content)
            continue
        private = frozenset(b for b in content.produced if b.role is Role.TEMPORARY and b not in outside[place])
        steps.append(kernel_of(content, private, names, traits))
    return steps


def _reads_of(content: Group | Extern) -> frozenset[Buffer]:
    operations: list[Operation] = [content] if isinstance(content, Extern) else list(content.members)
    return frozenset(b for o in operations for b in read_buffers(o))


def _notes(program: Program) -> tuple[str, ...]:
    calls: dict[str, None] = {}
    for operation in program.operations:
        if isinstance(operation, Extern):
            calls.setdefault(f"{operation.target} calls the library")
    return tuple(calls)
