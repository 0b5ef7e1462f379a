"""What a product kernel asks of its passes: which come in a run, what they touch, how they relate to the columns."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from kernelevolve.operators.synthesis.buffer import Buffer, Role
from kernelevolve.operators.synthesis.expr import Cast, Const, Expr, IndexValue, Load, Masked, Op
from kernelevolve.operators.synthesis.index import Index, Var
from kernelevolve.operators.synthesis.kernels import Assign, Pass, ProductPass, targets_of
from kernelevolve.operators.synthesis.layout import unflatten
from kernelevolve.operators.synthesis.traversal import walk


def segments_of(passes: Sequence[Pass | ProductPass]) -> list[list[Pass | ProductPass]]:
    """Passes grouped: each product alone, the others in runs."""
    segments: list[list[Pass | ProductPass]] = []
    for step in passes:
        if isinstance(step, ProductPass) or not segments or isinstance(segments[-1][0], ProductPass):
            segments.append([step])
        else:
            segments[-1].append(step)
    return segments


def buffers_read(step: Pass | ProductPass) -> set[Buffer]:
    values: list[Expr] = [step.left, step.right] if isinstance(step, ProductPass) else []
    if isinstance(step, Pass):
        values = [*(a.value for a in step.assigns), *(a.value for a in step.accumulates)]
    return {e.buffer for v in values for e in walk(v) if isinstance(e, Load)}


def buffers_touched(step: Pass | ProductPass) -> set[Buffer]:
    return buffers_read(step) | {t.buffer for t in targets_of(step)}


def follows_columns(step: Pass | ProductPass, product: ProductPass) -> bool:
    """True for a pointwise pass over exactly the columns of the product, reading it at its own place only."""
    if not isinstance(step, Pass) or step.accumulates or tuple(a.extent for a in step.axes) != (
        product.columns[0].extent,
    ):  # fmt: skip
        return False
    (axis,) = step.axes
    local = [e for a in step.assigns for e in walk(a.value) if isinstance(e, Load) and e.buffer.role is Role.ROW]
    return all(e.index == (Index.of(axis),) for e in local)


def over_axis(step: Pass, axis: Var) -> Pass:
    """The pass with its axis named as that of the product."""
    mapping = {step.axes[0]: Index.of(axis)}
    assigns = tuple(Assign(a.target.substitute(mapping), a.value.substitute(mapping)) for a in step.assigns)
    return replace(step, axes=(axis,), assigns=assigns)


def zero_outside(expr: Expr, lane: Var) -> tuple[Expr, list[tuple[Index, Index]]]:
    """``(value, bounds)`` of a value that is zero outside a run of lanes: inside where 0 <= low + lane < size for each.

    Without bounds the value is the whole expression.
    """
    masked = expr.arg if isinstance(expr, Cast) else expr
    if not isinstance(masked, Masked) or not isinstance(masked.other, Const) or masked.other.value != 0:
        return expr, []
    lows: list[Index] = []
    sizes: dict[Index, Index] = {}
    pending: list[Expr] = [masked.condition]
    while pending:
        test = pending.pop()
        if isinstance(test, Op) and test.name == "and":
            pending += test.args
            continue
        if not isinstance(test, Op) or not isinstance(test.args[0], IndexValue):
            return expr, []
        place, bound = test.args[0].index, test.args[1]
        if place.coefficient(lane) != Index.of(1):
            return expr, []
        low = place - Index.of(lane)
        if test.name == "ge" and isinstance(bound, Const) and bound.value == 0:
            lows.append(low)
        elif test.name == "lt" and isinstance(bound, IndexValue):
            sizes[low] = bound.index
        else:
            return expr, []
    if set(lows) != set(sizes):
        return expr, []
    value = masked.value if expr is masked else Cast(masked.value, expr.dtype)
    return value, [(low, sizes[low]) for low in dict.fromkeys(lows)]


def digits_of(flat: Var, axes: Sequence[Var]) -> dict[Var, Index]:
    """Axes as the digits of one flattened position."""
    return dict(zip(axes, unflatten(Index.of(flat), tuple(a.extent for a in axes)), strict=True))
