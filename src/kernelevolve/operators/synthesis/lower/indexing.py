"""Reads at positions that are themselves data: gather, embedding, bags of embeddings, binary search."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from torch import fx

from kernelevolve.operators.synthesis.dtype import compute_dtype
from kernelevolve.operators.synthesis.expr import Cast, Const, Expr, IndexValue, Load, Masked, Op, Search, Value, cast
from kernelevolve.operators.synthesis.index import Index, Var
from kernelevolve.operators.synthesis.ir import Combine, Reduction, Segment, Target
from kernelevolve.operators.synthesis.lower.context import Lowering, NotLowered, Tensor, op, positions
from kernelevolve.operators.synthesis.lower.pointwise import common_dtype
from kernelevolve.operators.synthesis.lower.table import arguments, lowers


def position_from(values: Tensor, at: Sequence[Index], size: Index, wraps: bool = False) -> Index:
    """The position that an index tensor names; with ``wraps`` negative ones count from the end."""
    if values.dtype == "bool" or values.dtype == "uint8":
        raise NotLowered("indexing with a mask")
    read = values.value(at, "int64")
    if isinstance(read, IndexValue):
        return read.index
    if wraps:
        negative = Op("lt", (read, Const(0, "int64")), "bool")
        read = Op("where", (negative, Op("add", (read, IndexValue(size, "int64")), "int64"), read), "int64")
    return Index.of(Value(read, size))


@lowers("gather")
def _gather(lowering: Lowering, node: fx.Node) -> Tensor:
    given = arguments(node)
    source, index = lowering.tensor(given["self"]), lowering.tensor(given["index"])
    if not source.shape or not index.shape:
        raise NotLowered("gather from a scalar")
    dim = int(given["dim"]) % len(source.shape)
    return _indexed(lowering, node, source, index.shape, lambda at: [
        position_from(index, at, source.shape[dim]) if d == dim else i for d, i in enumerate(at)
    ])  # fmt: skip


@lowers("index_select")
def _index_select(lowering: Lowering, node: fx.Node) -> Tensor:
    given = arguments(node)
    source, index = lowering.tensor(given["self"]), lowering.tensor(given["index"])
    if not source.shape or not index.shape:
        raise NotLowered("selection from a scalar")
    dim = int(given["dim"]) % len(source.shape)
    return _indexed(lowering, node, source, lowering.shape(node), lambda at: [
        position_from(index, [at[dim]], source.shape[dim]) if d == dim else i for d, i in enumerate(at)
    ])  # fmt: skip


@lowers("embedding")
def _embedding(lowering: Lowering, node: fx.Node) -> Tensor:
    table, index = lowering.tensor(node.args[0]), lowering.tensor(node.args[1])
    return _indexed(
        lowering, node, table, lowering.shape(node), lambda at: [position_from(index, at[:-1], table.shape[0]), at[-1]]
    )


@lowers("index.Tensor")
def _index(lowering: Lowering, node: fx.Node) -> Tensor:
    given = arguments(node)
    source = lowering.tensor(given["self"])
    indices = [None if i is None else lowering.tensor(i) for i in given["indices"]]
    used = [d for d, i in enumerate(indices) if i is not None]
    if used != list(range(used[0], used[-1] + 1)):
        raise NotLowered("index tensors with a whole dimension between them")
    shape = lowering.shape(node)
    rank = max(len(i.shape) for i in indices if i is not None)
    first = used[0]

    def where(at: tuple[Index, ...]) -> list[Index]:
        picked = at[first : first + rank]
        rest = [*at[:first], *at[first + rank :]]
        found: list[Index] = []
        for d in range(len(source.shape)):
            index = indices[d] if d < len(indices) else None
            if index is None:
                found.append(rest.pop(0))
            else:
                tail = picked[rank - len(index.shape) :]
                place = [Index() if s.constant == 1 else i for s, i in zip(index.shape, tail, strict=True)]
                found.append(position_from(index, place, source.shape[d], wraps=True))
        return found

    return _indexed(lowering, node, source, shape, where)


def _indexed(lowering: Lowering, node: fx.Node, source: Tensor, shape: tuple[Index, ...], where: Any) -> Tensor:
    result = lowering.dtype(node)
    return lowering.pointwise(node.name, shape, result, lambda at: cast(source.at(where(at)), compute_dtype(result)))


@lowers("bucketize.Tensor", "searchsorted.Tensor")
def _search(lowering: Lowering, node: fx.Node) -> Tensor:
    given = arguments(node)
    bucketize = "bucketize" in str(node.target)
    values = lowering.tensor(given["self"])
    sorted_node = given["boundaries" if bucketize else "sorted_sequence"]
    if not bucketize and given["sorter"] is not None:
        raise NotLowered("search through a sorter")
    right = bool(given["right"]) or (not bucketize and given["side"] == "right")
    borders = lowering.tensor(sorted_node)
    buffer = lowering.materialised(borders, f"{node.name}_borders")
    length = borders.shape[-1]
    wanted = common_dtype([given["self"], sorted_node])
    if wanted != compute_dtype(borders.dtype):
        raise NotLowered("search for values of a wider dtype than the borders")
    result = lowering.dtype(node)

    def value(at: tuple[Index, ...]) -> Expr:
        row = tuple(at[: len(buffer.shape) - 1])
        return Search(buffer, row, length, values.value(at, wanted), right, result)

    return lowering.pointwise(node.name, values.shape, result, value)


@lowers("_embedding_bag", "_embedding_bag_forward_only")
def _embedding_bag(lowering: Lowering, node: fx.Node) -> Any:
    given = arguments(node)
    table, indices, offsets = (lowering.tensor(given[k]) for k in ("weight", "indices", "offsets"))
    mode = int(given["mode"])
    if given["padding_idx"] != -1:
        raise NotLowered("bags with a padding index")
    if node.meta["val"][0].shape[0] == 0 or mode not in (0, 1, 2):
        raise NotLowered("no bags")
    weights = lowering.tensor(given["per_sample_weights"]) if given["per_sample_weights"] is not None else None
    shape = lowering.shape(node.meta["val"][0])
    total = indices.shape[0]
    axes = lowering.axes(shape)
    at = positions(axes)
    bag, column = at
    inside = Var(f"{axes[1].name}_bag", total)
    begin = offsets.value([bag], "int64")
    end = _end_of_bag(offsets, bag, total)
    wanted = compute_dtype(table.dtype)
    row = position_from(indices, [Index.of(inside)], table.shape[0])
    value = table.value([row, column], wanted)
    if weights is not None:
        value = op("mul", value, weights.value([Index.of(inside)], wanted))
    combine = Combine.MAX if mode == 2 else Combine.SUM
    stored = table.dtype if mode == 0 else wanted
    buffer = lowering.temporary(node.name, shape, stored)
    loops = tuple(a for a in axes if a.extent.constant != 1)
    segment = Segment(inside, begin, end)
    lowering.operations.append(
        Reduction(buffer.name, loops, (inside,), combine, value, (Target(buffer, at),), segment, (node.name,))
    )
    pooled = lowering.wrap(buffer)
    if mode != 0:
        pooled = _finished_bag(lowering, node.name, pooled, table.dtype, mode, offsets, total)
    return (pooled, None, None, None)


def _end_of_bag(offsets: Tensor, bag: Index, total: Index) -> Expr:
    following = bag + 1
    last = Op("lt", (IndexValue(following, "int64"), IndexValue(offsets.shape[0], "int64")), "bool")
    expr = offsets.value([following], "int64")
    return Masked(last, expr, IndexValue(total, "int64"))


def _finished_bag(
    lowering: Lowering, name: str, pooled: Tensor, dtype: str, mode: int, offsets: Tensor, total: Index
) -> Tensor:
    """Means divide by the length of the bag; the largest of an empty bag is 0."""

    def value(at: tuple[Index, ...]) -> Expr:
        length = op("sub", _end_of_bag(offsets, at[0], total), offsets.value([at[0]], "int64"))
        x = pooled.value(at)
        if mode == 1:
            return op("div", x, Cast(op("maximum", length, Const(1, "int64")), x.dtype))
        empty = op("eq", length, Const(0, "int64"), dtype="bool")
        return op("where", empty, Const(0.0, x.dtype), x)

    return lowering.pointwise(f"{name}_pooled", pooled.shape, dtype, value)


def is_gather(expr: Expr) -> bool:
    """True for a load at a position that is read from memory."""
    return isinstance(expr, Load) and any(isinstance(a, Value) for i in expr.index for a in i.atoms)
