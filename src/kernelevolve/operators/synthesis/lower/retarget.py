"""Operations with some buffers exchanged for others."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from kernelevolve.operators.synthesis.buffer import Buffer
from kernelevolve.operators.synthesis.expr import Expr, Load, Search
from kernelevolve.operators.synthesis.ir import (
    Extern,
    Operation,
    Pointwise,
    Product,
    Reduction,
    StridedView,
    Target,
)
from kernelevolve.operators.synthesis.traversal import rebuild, rebuild_index


def retarget(operation: Operation, exchange: Mapping[Buffer, Buffer]) -> Operation:
    """The operation reading and writing ``exchange[b]`` in the place of each buffer ``b`` that it names."""
    if not exchange:
        return operation

    def leaf(expr: Expr) -> Expr | None:
        if isinstance(expr, Load) and expr.buffer in exchange:
            return Load(exchange[expr.buffer], tuple(rebuild_index(i, leaf) for i in expr.index))
        if isinstance(expr, Search) and expr.sorted in exchange:
            return rebuild(replace(expr, sorted=exchange[expr.sorted]), leaf)
        return None

    def expr(value: Expr) -> Expr:
        return rebuild(value, leaf)

    def target(value: Target) -> Target:
        where = tuple(rebuild_index(i, leaf) for i in value.index)
        return Target(exchange.get(value.buffer, value.buffer), where)

    if isinstance(operation, Pointwise):
        return replace(operation, target=target(operation.target), value=expr(operation.value))
    if isinstance(operation, Reduction):
        segment = operation.segment
        if segment is not None:
            segment = replace(segment, begin=expr(segment.begin), end=expr(segment.end))
        targets = tuple(target(t) for t in operation.targets)
        return replace(operation, value=expr(operation.value), targets=targets, segment=segment)
    if isinstance(operation, Product):
        library = retarget(operation.library, exchange) if operation.library is not None else None
        assert library is None or isinstance(library, Extern)
        return replace(
            operation, left=expr(operation.left), right=expr(operation.right), target=target(operation.target),
            library=library,
        )  # fmt: skip
    outputs = tuple(exchange.get(b, b) if b is not None else None for b in operation.outputs)
    return replace(
        operation, args=_exchanged(operation.args, exchange), kwargs=_exchanged(dict(operation.kwargs), exchange),
        outputs=outputs,
    )  # fmt: skip


def _exchanged(value: Any, exchange: Mapping[Buffer, Buffer]) -> Any:
    if isinstance(value, StridedView):
        return replace(value, buffer=exchange.get(value.buffer, value.buffer))
    if isinstance(value, (list, tuple)):
        return type(value)(_exchanged(v, exchange) for v in value)
    if isinstance(value, dict):
        return {k: _exchanged(v, exchange) for k, v in value.items()}
    return value
