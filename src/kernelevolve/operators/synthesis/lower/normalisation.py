"""Normalisations: moments over some dimensions, then one scaled shift a position."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import fx

from kernelevolve.operators.synthesis.dtype import compute_dtype
from kernelevolve.operators.synthesis.expr import Const, Expr
from kernelevolve.operators.synthesis.index import Index
from kernelevolve.operators.synthesis.ir import Combine
from kernelevolve.operators.synthesis.layout import flatten, product_of, unflatten
from kernelevolve.operators.synthesis.lower.context import Lowering, NotLowered, Tensor, op
from kernelevolve.operators.synthesis.lower.reductions import divided, moments, reduce
from kernelevolve.operators.synthesis.lower.table import arguments, lowers


def _scale_of(lowering: Lowering, name: str, squares: Tensor, count: Index, eps: float) -> Tensor:
    """``1 / sqrt(variance + eps)`` from a sum of squared distances."""

    def value(at: tuple[Index, ...]) -> Expr:
        variance = divided(squares.value(at), count)
        return op("rsqrt", op("add", variance, Const(eps, variance.dtype)))

    return lowering.pointwise(f"{name}_rstd", squares.shape, squares.dtype, value)


def _normalised(x: Expr, mean: Expr, scale: Expr, weight: Expr | None, bias: Expr | None) -> Expr:
    y = op("mul", op("sub", x, mean), scale)
    if weight is not None:
        y = op("mul", y, weight)
    return op("add", y, bias) if bias is not None else y


def _optional(lowering: Lowering, node: Any) -> Tensor | None:
    return lowering.tensor(node) if node is not None else None


@lowers("native_layer_norm", "layer_norm")
def _layer_norm(lowering: Lowering, node: fx.Node) -> Any:
    given = arguments(node)
    source = lowering.tensor(given["input"])
    weight, bias = _optional(lowering, given["weight"]), _optional(lowering, given["bias"])
    rank, inner = len(source.shape), len(given["normalized_shape"])
    dims = list(range(rank - inner, rank))
    mean, squares = moments(lowering, node.name, source, dims)
    count = product_of(source.shape[d] for d in dims)
    scale = _scale_of(lowering, node.name, squares, count, float(given["eps"]))
    whole = "native" in str(node.target)
    result = lowering.dtype(node.meta["val"][0] if whole else node)

    def value(at: tuple[Index, ...]) -> Expr:
        w = weight.value(at, mean.dtype) if weight else None
        b = bias.value(at, mean.dtype) if bias else None
        return _normalised(source.value(at, mean.dtype), mean.value(at), scale.value(at), w, b)

    out = lowering.pointwise(node.name, source.shape, result, value)
    return (out, mean, scale) if whole else out


@lowers("_fused_rms_norm")
def _rms_norm(lowering: Lowering, node: fx.Node) -> tuple[Tensor, Tensor]:
    """``x / sqrt(mean(x²) + eps) * weight``; some releases of torch keep it whole on a GPU."""
    given = arguments(node)
    source, weight = lowering.tensor(given["input"]), _optional(lowering, given["weight"])
    rank = len(source.shape)
    dims = list(range(rank - len(given["normalized_shape"]), rank))
    wanted = compute_dtype(source.dtype)
    eps = float(given["eps"]) if given["eps"] is not None else torch.finfo(getattr(torch, source.dtype)).eps

    def square(at: tuple[Index, ...]) -> Expr:
        x = source.value(at, wanted)
        return op("mul", x, x)

    (squares,) = reduce(lowering, f"{node.name}_squares", source, dims, Combine.SUM, [wanted], square)
    scale = _scale_of(lowering, node.name, squares, product_of(source.shape[d] for d in dims), eps)

    def value(at: tuple[Index, ...]) -> Expr:
        y = op("mul", source.value(at, wanted), scale.value(at))
        return op("mul", y, weight.value(at, wanted)) if weight else y

    return lowering.pointwise(node.name, source.shape, lowering.dtype(node.meta["val"][0]), value), scale


@lowers("native_group_norm")
def _group_norm(lowering: Lowering, node: fx.Node) -> Any:
    given = arguments(node)
    source = lowering.tensor(given["input"])
    weight, bias = _optional(lowering, given["weight"]), _optional(lowering, given["bias"])
    groups = int(given["group"])
    n, channels = source.shape[0], source.shape[1]
    if channels.constant is None:
        raise NotLowered("a number of channels that changes")
    each = channels.constant // groups
    # Statistics over (channels of the group, space): the tensor is seen as (N, groups, channels each, space).
    space = product_of(source.shape[2:])
    grouped_shape = (n, Index.of(groups), Index.of(each), space)
    grouped = lowering.view(source, grouped_shape, lambda at: unflatten(flatten(at, grouped_shape), source.shape))
    mean, squares = moments(lowering, node.name, grouped, [2, 3])
    scale = _scale_of(lowering, node.name, squares, space * each, float(given["eps"]))

    def value(at: tuple[Index, ...]) -> Expr:
        channel = [at[1] * each + at[2]]
        w = weight.value(channel, mean.dtype) if weight else None
        b = bias.value(channel, mean.dtype) if bias else None
        return _normalised(grouped.value(at, mean.dtype), mean.value(at), scale.value(at), w, b)

    out = lowering.pointwise(node.name, grouped_shape, source.dtype, value)
    viewed = lowering.view(out, source.shape, lambda at: unflatten(flatten(at, source.shape), grouped_shape))

    def flat(statistic: Tensor) -> Tensor:
        return lowering.view(statistic, [n, Index.of(groups)], lambda at: [*at, Index(), Index()])

    return viewed, flat(mean), flat(scale)


@lowers("_native_batch_norm_legit_no_training")
def _batch_norm_with_statistics(lowering: Lowering, node: fx.Node) -> Any:
    given = arguments(node)
    source = lowering.tensor(given["input"])
    mean, variance = lowering.tensor(given["running_mean"]), lowering.tensor(given["running_var"])
    weight, bias = _optional(lowering, given["weight"]), _optional(lowering, given["bias"])
    wanted = compute_dtype(source.dtype)
    eps = float(given["eps"])

    # One product and one sum a position: everything else depends on the channel alone.
    def scale_value(at: tuple[Index, ...]) -> Expr:
        root = op("rsqrt", op("add", variance.value(at, wanted), Const(eps, wanted)))
        return op("mul", root, weight.value(at, wanted)) if weight else root

    scale = lowering.pointwise(f"{node.name}_scale", mean.shape, wanted, scale_value)

    def value(at: tuple[Index, ...]) -> Expr:
        channel = [at[1]]
        centred = op("sub", source.value(at, wanted), mean.value(channel, wanted))
        y = op("mul", centred, scale.value(channel))
        return op("add", y, bias.value(channel, wanted)) if bias else y

    out = lowering.pointwise(node.name, source.shape, source.dtype, value)
    return out, None, None


@lowers("_native_batch_norm_legit.no_stats")
def _batch_norm_without_statistics(lowering: Lowering, node: fx.Node) -> Any:
    given = arguments(node)
    if not given["training"]:
        raise NotLowered("batch norm without statistics outside training")
    source = lowering.tensor(given["input"])
    weight, bias = _optional(lowering, given["weight"]), _optional(lowering, given["bias"])
    dims = [d for d in range(len(source.shape)) if d != 1]
    mean, squares = moments(lowering, node.name, source, dims)
    count = product_of(source.shape[d] for d in dims)
    scale = _scale_of(lowering, node.name, squares, count, float(given["eps"]))

    def value(at: tuple[Index, ...]) -> Expr:
        channel: Sequence[Index] = [at[1]]
        w = weight.value(channel, mean.dtype) if weight else None
        b = bias.value(channel, mean.dtype) if bias else None
        return _normalised(source.value(at, mean.dtype), mean.value(at), scale.value(at), w, b)

    out = lowering.pointwise(node.name, source.shape, source.dtype, value)

    def flat(statistic: Tensor) -> Tensor:
        rank = len(source.shape)
        return lowering.view(
            statistic, [source.shape[1]], lambda at: [at[0] if d == 1 else Index() for d in range(rank)]
        )

    return out, flat(mean), flat(scale)
