"""Reductions over any dimensions, and the softmaxes, which are two of them."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from torch import fx

from kernelevolve.operators.synthesis.buffer import Buffer
from kernelevolve.operators.synthesis.dtype import INTEGRAL, DType, compute_dtype
from kernelevolve.operators.synthesis.expr import Cast, Const, Expr, IndexValue
from kernelevolve.operators.synthesis.index import Index
from kernelevolve.operators.synthesis.ir import Combine, Pointwise, Reduction, Target
from kernelevolve.operators.synthesis.layout import product_of
from kernelevolve.operators.synthesis.lower.context import Lowering, NotLowered, Tensor, op, positions
from kernelevolve.operators.synthesis.lower.table import arguments, lowers


def reduce(
    lowering: Lowering,
    name: str,
    source: Tensor,
    dims: Sequence[int],
    combine: Combine,
    dtypes: Sequence[DType],
    value: Callable[[tuple[Index, ...]], Expr],
) -> tuple[Tensor, ...]:
    """Reduce ``value(position)`` over dimensions of a tensor's shape into fresh buffers of the kept shape.

    The results come with the reduced dimensions kept as size 1; there is one for each dtype.
    """
    axes = lowering.axes(source.shape)
    at = positions(axes)
    kept = tuple(axes[d] for d in range(len(axes)) if d not in dims)
    reduced = tuple(axes[d] for d in dims if axes[d].extent.constant != 1)
    buffers = [lowering.temporary(name, tuple(a.extent for a in kept), dtype) for dtype in dtypes]
    targets = tuple(Target(b, positions(kept)) for b in buffers)
    loops = tuple(a for a in kept if a.extent.constant != 1)
    if not reduced:
        for target, result in zip(targets, _of_one_value(combine, value(at)), strict=True):
            lowering.operations.append(Pointwise(target.buffer.name, loops, target, result, (name,)))
        return tuple(_with_dims(lowering, b, dims, len(axes)) for b in buffers)
    lowering.operations.append(Reduction(buffers[0].name, loops, reduced, combine, value(at), targets, origins=(name,)))
    return tuple(_with_dims(lowering, b, dims, len(axes)) for b in buffers)


def _of_one_value(combine: Combine, value: Expr) -> tuple[Expr, ...]:
    """What a reduction of a single value gives."""
    if combine in (Combine.ARGMAX, Combine.ARGMIN):
        return (Const(0, "int64"),)
    return (value, op("sub", value, value)) if combine is Combine.MOMENTS else (value,)


def _with_dims(lowering: Lowering, buffer: Buffer, dims: Sequence[int], rank: int) -> Tensor:
    kept = [d for d in range(rank) if d not in dims]
    shape = tuple(buffer.shape[kept.index(d)] if d in kept else Index.of(1) for d in range(rank))
    return lowering.view(lowering.wrap(buffer), shape, lambda at: [at[d] for d in kept])


def squeezed(lowering: Lowering, tensor: Tensor, dims: Sequence[int]) -> Tensor:
    """The tensor without dimensions of size 1."""
    rank = len(tensor.shape)
    kept = [d for d in range(rank) if d not in dims]

    def where(at: tuple[Index, ...]) -> list[Index]:
        found = iter(at)
        return [next(found) if d in kept else Index() for d in range(rank)]

    return lowering.view(tensor, [tensor.shape[d] for d in kept], where)


def normalised_dims(dims: int | Sequence[int] | None, rank: int) -> list[int]:
    """Dimension arguments as sorted non-negative ints; all of them for None or an empty list."""
    if dims is None or dims == []:
        return list(range(rank))
    values = [dims] if isinstance(dims, int) else dims
    return sorted({int(d) % rank for d in values}) if rank else []


_COMBINES = {
    "sum": Combine.SUM, "mean": Combine.SUM, "prod": Combine.PROD, "amax": Combine.MAX, "amin": Combine.MIN,
    "max": Combine.MAX, "min": Combine.MIN, "any": Combine.ANY, "all": Combine.ALL, "argmax": Combine.ARGMAX,
    "argmin": Combine.ARGMIN,
}  # fmt: skip


@lowers(
    "sum", "sum.dim_IntList", "mean", "mean.dim", "prod", "prod.dim_int", "amax", "amin", "max", "min", "any",
    "any.dim", "any.dims", "all", "all.dim", "all.dims", "argmax", "argmin",
)  # fmt: skip
def _reduction(lowering: Lowering, node: fx.Node) -> Tensor:
    given = arguments(node)
    kind = str(node.target).split(".")[1]
    source = lowering.tensor(given["self"])
    rank = len(source.shape)
    dims = normalised_dims(given.get("dim"), rank)
    result = lowering.dtype(node)
    combine = _COMBINES[kind]
    if combine in (Combine.ANY, Combine.ALL):
        wanted: DType = "bool"
    elif combine in (Combine.ARGMAX, Combine.ARGMIN):
        wanted = compute_dtype(source.dtype)
        if any(size.constant == 0 for size in source.shape):
            raise NotLowered("argmax of nothing")
    else:
        wanted = compute_dtype(result)
    # A mean is finished from the exact sum, so the sum has the compute dtype; other results have their own.
    stored = wanted if kind == "mean" else result
    (total,) = reduce(lowering, node.name, source, dims, combine, [stored], lambda at: source.value(at, wanted))
    if kind == "mean":
        count = product_of(source.shape[d] for d in dims)
        total = lowering.pointwise(
            f"{node.name}_scaled", total.shape, result, lambda at: divided(total.value(at), count)
        )
    return total if given.get("keepdim") else squeezed(lowering, total, dims)


def divided(value: Expr, count: Index) -> Expr:
    """``value / count`` for a size."""
    number: Expr = Const(float(count.constant), value.dtype) if count.constant is not None else Cast(
        IndexValue(count, "int64"), value.dtype
    )  # fmt: skip
    return op("div", value, number)


@lowers("max.dim", "min.dim")
def _with_index(lowering: Lowering, node: fx.Node) -> tuple[Tensor, ...]:
    given = arguments(node)
    largest = "max" in str(node.target)
    source = lowering.tensor(given["self"])
    dims = normalised_dims(given["dim"], len(source.shape))
    wanted = compute_dtype(source.dtype)

    def value(at: tuple[Index, ...]) -> Expr:
        return source.value(at, wanted)

    best = Combine.MAX if largest else Combine.MIN
    where = Combine.ARGMAX if largest else Combine.ARGMIN
    results = (
        *reduce(lowering, node.name, source, dims, best, [source.dtype], value),
        *reduce(lowering, f"{node.name}_index", source, dims, where, ["int64"], value),
    )
    return results if given["keepdim"] else tuple(squeezed(lowering, r, dims) for r in results)


@lowers("var.correction", "var_mean.correction", "std.correction")
def _variance(lowering: Lowering, node: fx.Node) -> Tensor | tuple[Tensor, ...]:
    given = arguments(node)
    source = lowering.tensor(given["self"])
    dims = normalised_dims(given["dim"], len(source.shape))
    correction = 1.0 if given["correction"] is None else float(given["correction"])
    several = "var_mean" in str(node.target)
    fakes = node.meta["val"]
    result = lowering.dtype(fakes[0] if several else node)
    mean, squares = moments(lowering, node.name, source, dims)
    count = product_of(source.shape[d] for d in dims)
    root = "std" in str(node.target)

    def spread(at: tuple[Index, ...]) -> Expr:
        total = squares.value(at)
        if count.constant is not None:
            # Zero degrees of freedom give NaN or infinity, as a division by 0 does.
            variance = op("div", total, Const(max(0.0, count.constant - correction), total.dtype))
        else:
            freedom = op("sub", Cast(IndexValue(count, "int64"), total.dtype), Const(correction, total.dtype))
            variance = op("div", total, op("maximum", freedom, Const(0.0, total.dtype)))
        return op("sqrt", variance) if root else variance

    tensors = [lowering.pointwise(f"{node.name}_spread", squares.shape, result, spread)]
    if several:
        tensors.append(lowering.pointwise(f"{node.name}_mean", mean.shape, result, mean.value))
    if not given["keepdim"]:
        tensors = [squeezed(lowering, t, dims) for t in tensors]
    return tuple(tensors) if several else tensors[0]


def moments(lowering: Lowering, name: str, source: Tensor, dims: Sequence[int]) -> tuple[Tensor, Tensor]:
    """Mean and sum of squared distances from it over dimensions, which are kept as size 1, in the compute dtype."""
    wanted = compute_dtype(source.dtype)
    if wanted in INTEGRAL or wanted == "bool":
        raise NotLowered("variance of integers")
    both = [wanted, wanted]
    mean, squares = reduce(
        lowering, f"{name}_moments", source, dims, Combine.MOMENTS, both, lambda at: source.value(at, wanted)
    )
    return mean, squares


@lowers("_softmax", "_log_softmax", "softmax.int", "log_softmax.int")
def _softmax(lowering: Lowering, node: fx.Node) -> Tensor:
    given = arguments(node)
    source = lowering.tensor(given["self"])
    result = lowering.dtype(node)
    if not source.shape:
        raise NotLowered("softmax of a scalar")
    dims = normalised_dims(given["dim"], len(source.shape))
    wanted = compute_dtype(result)
    (top,) = reduce(
        lowering, f"{node.name}_max", source, dims, Combine.MAX, [wanted], lambda at: source.value(at, wanted)
    )
    logarithmic = "log" in str(node.target)

    def shifted(at: tuple[Index, ...]) -> Expr:
        return op("sub", source.value(at, wanted), top.value(at))

    if logarithmic:
        (total,) = reduce(
            lowering, f"{node.name}_sum", source, dims, Combine.SUM, [wanted], lambda at: op("exp", shifted(at))
        )
        logs = lowering.pointwise(f"{node.name}_log", total.shape, wanted, lambda at: op("log", total.value(at)))
        return lowering.pointwise(node.name, source.shape, result, lambda at: op("sub", shifted(at), logs.value(at)))
    powers = lowering.pointwise(f"{node.name}_exp", source.shape, wanted, lambda at: op("exp", shifted(at)))
    (total,) = reduce(lowering, f"{node.name}_sum", powers, dims, Combine.SUM, [wanted], powers.value)
    return lowering.pointwise(node.name, source.shape, result, lambda at: op("div", powers.value(at), total.value(at)))
