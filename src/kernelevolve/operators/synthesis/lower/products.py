"""Matrix products and convolutions: sums of products over contracted axes, with the torch call that does the same."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from torch import fx

from kernelevolve.operators.synthesis.dtype import INTEGRAL, compute_dtype
from kernelevolve.operators.synthesis.expr import Const, Expr, cast
from kernelevolve.operators.synthesis.index import Index, Var
from kernelevolve.operators.synthesis.ir import Extern, Product, Target
from kernelevolve.operators.synthesis.lower.context import Lowering, NotLowered, Tensor, op, positions, scalar
from kernelevolve.operators.synthesis.lower.table import arguments, lowers
from kernelevolve.operators.synthesis.lower.views import within


def _product(
    lowering: Lowering,
    node: fx.Node,
    name: str,
    groups: tuple[Sequence[Var], Sequence[Var], Sequence[Var], Sequence[Var]],
    sides: tuple[Expr, Expr],
    shape: tuple[Index, ...],
    at: tuple[Index, ...],
    library: tuple[str, tuple[Any, ...]],
) -> Tensor:
    result = lowering.dtype(node)
    buffer = lowering.temporary(name, shape, result)
    batch, rows, columns, contracted = (tuple(a for a in g if a.extent.constant != 1) for g in groups)
    call = Extern(buffer.name, library[0], library[1], {}, (buffer,), origins=(node.name,))
    lowering.operations.append(
        Product(buffer.name, batch, rows, columns, contracted, *sides, Target(buffer, at), (node.name,), call)
    )
    return lowering.wrap(buffer)


def _matmul(lowering: Lowering, node: fx.Node, left: Tensor, right: Tensor, name: str) -> Tensor:
    """``left (… m k) @ right (… k n)`` with equal leading dimensions."""
    wanted = compute_dtype(lowering.dtype(node))
    if wanted in INTEGRAL or wanted == "bool":
        raise NotLowered("product of integers")
    shape = (*left.shape[:-1], right.shape[-1])
    axes = lowering.axes(shape)
    (inner,) = lowering.axes((left.shape[-1],))
    at = positions(axes)
    (k,) = positions((inner,))
    sides = (left.value([*at[:-1], k], wanted), right.value([*at[:-2], k, at[-1]], wanted))
    target = "aten.bmm" if len(shape) == 3 else "aten.mm"
    call = (target, (lowering.strided(left, f"{name}_left"), lowering.strided(right, f"{name}_right")))
    return _product(lowering, node, name, (axes[:-2], axes[-2:-1], axes[-1:], (inner,)), sides, shape, at, call)


@lowers("mm", "bmm")
def _mm(lowering: Lowering, node: fx.Node) -> Tensor:
    return _matmul(lowering, node, lowering.tensor(node.args[0]), lowering.tensor(node.args[1]), node.name)


@lowers("mv", "dot")
def _vector_product(lowering: Lowering, node: fx.Node) -> Tensor:
    left, right = lowering.tensor(node.args[0]), lowering.tensor(node.args[1])
    matrix = left if len(left.shape) == 2 else lowering.view(left, [Index.of(1), *left.shape], lambda at: at[1:])
    column = lowering.view(right, [*right.shape, Index.of(1)], lambda at: at[:1])
    whole = _matmul(lowering, node, matrix, column, node.name)
    if len(left.shape) == 2:
        return lowering.view(whole, [left.shape[0]], lambda at: [at[0], Index()])
    return lowering.view(whole, [], lambda at: [Index(), Index()])


@lowers("addmm", "baddbmm")
def _addmm(lowering: Lowering, node: fx.Node) -> Tensor:
    given = arguments(node)
    names = ("mat1", "mat2") if "mat1" in given else ("batch1", "batch2")
    bias = lowering.tensor(given["self"])
    product = _matmul(
        lowering, node, lowering.tensor(given[names[0]]), lowering.tensor(given[names[1]]), f"{node.name}_product"
    )
    alpha, beta = given["alpha"], given["beta"]

    def value(at: tuple[Index, ...]) -> Expr:
        total = product.value(at)
        if alpha != 1:
            total = op("mul", total, scalar(alpha, (), total.dtype))
        if beta == 0:
            return total
        add = bias.value(at, total.dtype)
        if beta != 1:
            add = op("mul", add, scalar(beta, (), add.dtype))
        return op("add", total, add)

    return lowering.pointwise(node.name, product.shape, lowering.dtype(node), value)


@lowers("linear")
def _linear(lowering: Lowering, node: fx.Node) -> Tensor:
    given = arguments(node)
    source, weight = lowering.tensor(given["input"]), lowering.tensor(given["weight"])
    if len(source.shape) != 2:
        raise NotLowered("linear on more than two dimensions")
    turned = lowering.view(weight, [weight.shape[1], weight.shape[0]], lambda at: [at[1], at[0]])
    product = _matmul(lowering, node, source, turned, f"{node.name}_product")
    if given["bias"] is None:
        return product
    return _with_bias(lowering, node, product, lowering.tensor(given["bias"]), len(product.shape) - 1)


def _with_bias(lowering: Lowering, node: fx.Node, product: Tensor, bias: Tensor, dim: int) -> Tensor:
    return lowering.pointwise(
        node.name, product.shape, lowering.dtype(node),
        lambda at: op("add", product.value(at), bias.value([at[dim]], compute_dtype(product.dtype))),
    )  # fmt: skip


@lowers("convolution", "conv1d", "conv2d", "conv3d")
def _convolution(lowering: Lowering, node: fx.Node) -> Tensor:
    """``out[n, o, p]`` is the sum over c and k of ``weight[o, c, k] * x[n, channel c of the group, at]``, where
    ``at = p * stride + k * dilation - padding``."""
    given = arguments(node)
    source, weight = lowering.tensor(given["input"]), lowering.tensor(given["weight"])
    if given.get("transposed") or isinstance(given["padding"], str):
        raise NotLowered("transposed convolution")
    spatial = len(weight.shape) - 2
    if len(source.shape) != spatial + 2:
        raise NotLowered("convolution without a batch")
    groups = int(given["groups"])
    stride, padding, dilation = (_each(given[k], spatial) for k in ("stride", "padding", "dilation"))
    shape = lowering.shape(node)
    out_channels, in_channels = weight.shape[0].constant, weight.shape[1].constant
    if out_channels is None or in_channels is None:
        raise NotLowered("channels that change")
    axes = lowering.axes((shape[0], Index.of(groups), Index.of(out_channels // groups), *shape[2:]))
    window = lowering.axes(weight.shape[1:])
    image, group, channel, *place = positions(axes)
    inner, *taps = positions(window)
    where = [p * s + t * d - q for p, s, t, d, q in zip(place, stride, taps, dilation, padding, strict=True)]
    bounds = [(w, size) for w, size, q in zip(where, source.shape[2:], padding, strict=True) if q]
    out = group * (out_channels // groups) + channel
    wanted = compute_dtype(source.dtype)
    right = within(
        source.at([image, group * in_channels + inner, *where]), bounds, cast(Const(0.0, "float64"), source.dtype)
    )
    sides = (weight.value([out, inner, *taps], wanted), cast(right, wanted))
    arguments_of_call = (
        lowering.strided(source, f"{node.name}_input"), lowering.strided(weight, f"{node.name}_weight"), None,
        list(stride), list(padding), list(dilation), False, [0] * spatial, groups,
    )  # fmt: skip
    biased = given["bias"] is not None
    product = _product(
        lowering, node, f"{node.name}_product" if biased else node.name,
        (axes[:2], axes[2:3], axes[3:], window), sides, shape, (image, out, *place),
        ("aten.convolution", arguments_of_call),
    )  # fmt: skip
    return _with_bias(lowering, node, product, lowering.tensor(given["bias"]), 1) if biased else product


def _each(value: Any, count: int) -> list[int]:
    values = [int(v) for v in value] if isinstance(value, (list, tuple)) else [int(value)]
    return values * count if len(values) == 1 else values
