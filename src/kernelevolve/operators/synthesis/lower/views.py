"""Views and rearrangements: index maps, no operations, except that a concatenation writes its pieces."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from torch import fx

from kernelevolve.operators.synthesis.expr import Const, Expr, IndexValue, Masked, Op, cast
from kernelevolve.operators.synthesis.index import Index
from kernelevolve.operators.synthesis.ir import Pointwise, Target
from kernelevolve.operators.synthesis.layout import flatten, unflatten
from kernelevolve.operators.synthesis.lower.context import Lowering, Tensor, positions
from kernelevolve.operators.synthesis.lower.table import arguments, lowers


@lowers("view", "reshape", "_unsafe_view", "flatten.using_ints", "unsqueeze", "squeeze", "squeeze.dim", "squeeze.dims")
def _reshape(lowering: Lowering, node: fx.Node) -> Tensor:
    source = lowering.tensor(arguments(node)["self"])
    shape = lowering.shape(node)
    return lowering.view(source, shape, lambda at: unflatten(flatten(at, shape), source.shape))


@lowers("permute")
def _permute(lowering: Lowering, node: fx.Node) -> Tensor:
    given = arguments(node)
    source = lowering.tensor(given["self"])
    rank = len(source.shape)
    order = [int(d) % rank for d in given["dims"]]
    return _permuted(lowering, source, order)


@lowers("transpose.int", "t")
def _transpose(lowering: Lowering, node: fx.Node) -> Tensor:
    given = arguments(node)
    source = lowering.tensor(given["self"])
    rank = len(source.shape)
    order = list(range(rank))
    if rank > 1:
        a, b = int(given.get("dim0", 0)) % rank, int(given.get("dim1", 1)) % rank
        order[a], order[b] = order[b], order[a]
    return _permuted(lowering, source, order)


def _permuted(lowering: Lowering, source: Tensor, order: Sequence[int]) -> Tensor:
    return lowering.view(
        source, [source.shape[d] for d in order], lambda at: [at[order.index(d)] for d in range(len(order))]
    )


@lowers("expand")
def _expand(lowering: Lowering, node: fx.Node) -> Tensor:
    source = lowering.tensor(node.args[0])
    shape = lowering.shape(node)
    lead = len(shape) - len(source.shape)

    def where(at: tuple[Index, ...]) -> list[Index]:
        return [Index() if s.constant == 1 else i for s, i in zip(source.shape, at[lead:], strict=True)]

    return lowering.view(source, shape, where)


@lowers("select.int")
def _select(lowering: Lowering, node: fx.Node) -> Tensor:
    given = arguments(node)
    source = lowering.tensor(given["self"])
    dim = int(given["dim"]) % len(source.shape)
    index = lowering.size(given["index"])
    if index.constant is not None and index.constant < 0:
        index = source.shape[dim] + index
    return lowering.view(source, lowering.shape(node), lambda at: [*at[:dim], index, *at[dim:]])


@lowers("slice.Tensor")
def _slice(lowering: Lowering, node: fx.Node) -> Tensor:
    given = arguments(node)
    source = lowering.tensor(given["self"])
    dim = int(given["dim"]) % len(source.shape)
    start = lowering.size(given["start"] if given["start"] is not None else 0)
    step = int(given["step"])
    size = source.shape[dim]
    if start.constant is not None and start.constant < 0:
        start = size + start
        if start.constant is not None and start.constant < 0:
            start = Index()
    shape = lowering.shape(node)
    return lowering.view(source, shape, lambda at: [*at[:dim], at[dim] * step + start, *at[dim + 1 :]])


@lowers("split_with_sizes", "split.Tensor", "unbind.int", "chunk")
def _split(lowering: Lowering, node: fx.Node) -> tuple[Tensor, ...]:
    given = arguments(node)
    source = lowering.tensor(given["self"])
    dim = int(given["dim"]) % len(source.shape)
    unbind = "unbind" in str(node.target)

    def piece(fake: Any, start: Index) -> Tensor:
        if unbind:
            return lowering.view(source, lowering.shape(fake), lambda at: [*at[:dim], start, *at[dim:]])
        return lowering.view(source, lowering.shape(fake), lambda at: [*at[:dim], at[dim] + start, *at[dim + 1 :]])

    pieces: list[Tensor] = []
    start = Index()
    for fake in node.meta["val"]:
        pieces.append(piece(fake, start))
        start = start + (1 if unbind else pieces[-1].shape[dim])
    return tuple(pieces)


@lowers("unfold")
def _unfold(lowering: Lowering, node: fx.Node) -> Tensor:
    given = arguments(node)
    source = lowering.tensor(given["self"])
    dim = int(given["dimension"]) % len(source.shape)
    step = int(given["step"])
    shape = lowering.shape(node)
    return lowering.view(
        source, shape, lambda at: [*at[:dim], at[dim] * step + at[-1], *at[dim + 1 : len(source.shape)]]
    )


@lowers("flip")
def _flip(lowering: Lowering, node: fx.Node) -> Tensor:
    given = arguments(node)
    source = lowering.tensor(given["self"])
    rank = len(source.shape)
    flipped = {int(d) % rank for d in given["dims"]}

    def where(at: tuple[Index, ...]) -> list[Index]:
        return [source.shape[d] - 1 - i if d in flipped else i for d, i in enumerate(at)]

    return lowering.view(source, source.shape, where)


@lowers("repeat")
def _repeat(lowering: Lowering, node: fx.Node) -> Tensor:
    source = lowering.tensor(node.args[0])
    shape = lowering.shape(node)
    lead = len(shape) - len(source.shape)
    return lowering.view(source, shape, lambda at: [i % s for i, s in zip(at[lead:], source.shape, strict=True)])


@lowers("cat", "stack")
def _cat(lowering: Lowering, node: fx.Node) -> Tensor:
    given = arguments(node)
    stacked = "stack" in str(node.target)
    shape, dtype = lowering.shape(node), lowering.dtype(node)
    dim = int(given["dim"]) % len(shape)
    buffer = lowering.temporary(node.name, shape, dtype)
    start = Index()
    for number, piece in enumerate(given["tensors"]):
        source = lowering.tensor(piece)
        if not stacked and len(source.shape) == 1 and source.shape[0].constant == 0:
            continue
        axes = lowering.axes(source.shape)
        at = positions(axes)
        where = (*at[:dim], Index.of(number), *at[dim:]) if stacked else (*at[:dim], at[dim] + start, *at[dim + 1 :])
        kept = tuple(a for a in axes if a.extent.constant != 1)
        lowering.operations.append(
            Pointwise(lowering.name(f"{node.name}_piece"), kept, Target(buffer, where), source.value(at), (node.name,))
        )
        if not stacked:
            start = start + source.shape[dim]
    return lowering.wrap(buffer)


@lowers("constant_pad_nd")
def _pad(lowering: Lowering, node: fx.Node) -> Tensor:
    given = arguments(node)
    source = lowering.tensor(given["self"])
    shape = lowering.shape(node)
    pads = [lowering.size(p) for p in given["pad"]]
    rank = len(shape)
    before = [Index()] * rank
    padded = set()
    for d in range(len(pads) // 2):
        dim = rank - 1 - d
        before[dim] = pads[2 * d]
        if pads[2 * d] != Index() or pads[2 * d + 1] != Index():
            padded.add(dim)
    axes = lowering.axes(shape)
    at = positions(axes)
    where = [i - b for i, b in zip(at, before, strict=True)]
    value = cast(Const(float(given["value"]), "float64"), source.dtype)
    expr = within(source.at(where), [(where[d], source.shape[d]) for d in sorted(padded)], value)
    return Tensor(shape, source.dtype, axes, expr)


def within(value: Expr, bounds: Sequence[tuple[Index, Index]], other: Expr) -> Expr:
    """``value`` where ``0 <= position < size`` for all bounds, else ``other``."""
    condition: Expr | None = None
    for position, size in bounds:
        place, zero, end = IndexValue(position, "int64"), Const(0, "int64"), IndexValue(size, "int64")
        for test in (Op("ge", (place, zero), "bool"), Op("lt", (place, end), "bool")):
            condition = test if condition is None else Op("and", (condition, test), "bool")
    return value if condition is None else Masked(condition, value, other)
