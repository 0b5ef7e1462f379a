"""Adjacent loops that walk memory as one become one loop."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from kernelevolve.operators.synthesis.expr import Expr, IndexValue, Load, Search, TableValue
from kernelevolve.operators.synthesis.index import Index, Var
from kernelevolve.operators.synthesis.kernels import Accumulate, Assign, LoopKernel, Pass, ProductPass, targets_of
from kernelevolve.operators.synthesis.layout import flatten
from kernelevolve.operators.synthesis.traversal import walk


def collapsed_rows(kernel: LoopKernel) -> LoopKernel:
    """The kernel with neighbouring row axes merged where every index allows it."""
    rows, mapping = _merged(kernel.rows, [i for p in kernel.passes for i in _offsets(p)])
    if not mapping:
        return kernel
    return replace(kernel, rows=rows, passes=tuple(_substituted(p, mapping, rows) for p in kernel.passes))


def collapsed_pass(step: Pass) -> Pass:
    """The pass with neighbouring inner axes merged where every index allows it."""
    offsets = _offsets(step)
    axes, mapping = _merged(step.axes, offsets)
    fixed = {step.segment.var} if step.segment is not None else set()
    loose = tuple(v for v in step.reduced if v not in fixed)
    # Positions within the reduced axes are results of argmax and argmin: those axes stay as they are.
    reduced, more = _merged(loose, offsets) if all(len(a.targets) == 1 for a in step.accumulates) else (loose, {})
    if any(a.combine.startswith("arg") for a in step.accumulates):
        reduced, more = loose, {}
    mapping = {**mapping, **more}
    if not mapping:
        return step
    kept = tuple(v for v in step.reduced if v in fixed)
    merged = _substituted(step, mapping)
    assert isinstance(merged, Pass)
    return replace(merged, axes=axes, reduced=(*kept, *reduced))


def _merged(axes: Sequence[Var], offsets: Sequence[Index]) -> tuple[tuple[Var, ...], dict[Var, Index]]:
    """Merge from the innermost pair outwards; the mapping gives old axes in terms of new ones."""
    merged = list(axes)
    mapping: dict[Var, Index] = {}
    current = list(offsets)
    at = len(merged) - 2
    while at >= 0:
        outer, inner = merged[at], merged[at + 1]
        whole = Var(f"{outer.name}{inner.name}", outer.extent * inner.extent)
        step = {outer: Index.of(whole) // inner.extent, inner: Index.of(whole) % inner.extent}
        if all(_walks_as_one(i, outer, inner) for i in current):
            current = [_put(i, outer, inner, whole) for i in current]
            mapping = {v: i.substitute(step) for v, i in mapping.items()}
            mapping.update({v: i for v, i in step.items() if v in axes})
            merged[at : at + 2] = [whole]
        at -= 1
        at = min(at, len(merged) - 2)
    return tuple(merged), mapping


def _walks_as_one(offset: Index, outer: Var, inner: Var) -> bool:
    """True if the offset depends on the two through ``outer * inner.extent + inner`` only."""
    high, low = offset.coefficient(outer), offset.coefficient(inner)
    return high is not None and low is not None and high == low * inner.extent


def _put(offset: Index, outer: Var, inner: Var, whole: Var) -> Index:
    low = offset.coefficient(inner)
    assert low is not None
    return offset.substitute({outer: Index(), inner: Index()}) + Index.of(whole) * low


def _offsets(step: Pass | ProductPass) -> list[Index]:
    """Every place where a loop variable matters: offsets in memory and positions used as values."""
    found: list[Index] = []
    values: list[Expr] = [step.left, step.right] if isinstance(step, ProductPass) else []
    if isinstance(step, Pass):
        values = [*(a.value for a in step.assigns), *(a.value for a in step.accumulates)]
        if step.segment is not None:
            values += [step.segment.begin, step.segment.end]
    for value in values:
        for e in walk(value):
            if isinstance(e, Load):
                found.append(flatten(e.index, e.buffer.shape))
            elif isinstance(e, Search):
                found += [flatten((*e.row, Index()), e.sorted.shape), e.length]
            elif isinstance(e, (IndexValue, TableValue)):
                found.append(e.index)
    found += [flatten(t.index, t.buffer.shape) for t in targets_of(step)]
    return found


def _substituted(
    step: Pass | ProductPass, mapping: Mapping[Var, Index], rows: Sequence[Var] = ()
) -> Pass | ProductPass:
    if isinstance(step, ProductPass):
        right = step.right.substitute(mapping)
        return replace(
            step, left=step.left.substitute(mapping), right=right, target=step.target.substitute(mapping),
            shared=tuple(r for r in rows if r not in right.variables),
        )  # fmt: skip
    segment = step.segment
    if segment is not None:
        segment = replace(segment, begin=segment.begin.substitute(mapping), end=segment.end.substitute(mapping))
    return replace(
        step,
        assigns=tuple(Assign(a.target.substitute(mapping), a.value.substitute(mapping)) for a in step.assigns),
        accumulates=tuple(
            Accumulate(tuple(t.substitute(mapping) for t in a.targets), a.combine, a.value.substitute(mapping))
            for a in step.accumulates
        ),
        segment=segment,
    )


def is_pointwise(kernel: LoopKernel) -> bool:
    """True if every pass is scalar code: the rows are the whole iteration space."""
    return all(isinstance(p, Pass) and not p.axes and not p.reduced for p in kernel.passes)
