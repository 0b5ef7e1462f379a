"""Pooling: reductions over windows."""

from __future__ import annotations

import math
from typing import Any

from torch import fx

from kernelevolve.operators.synthesis.dtype import compute_dtype
from kernelevolve.operators.synthesis.expr import Const, Expr, cast
from kernelevolve.operators.synthesis.index import Index
from kernelevolve.operators.synthesis.ir import Combine, Reduction, Target
from kernelevolve.operators.synthesis.lower.context import Lowering, NotLowered, Tensor, op, positions
from kernelevolve.operators.synthesis.lower.table import arguments, lowers
from kernelevolve.operators.synthesis.lower.views import within


def _windows(
    lowering: Lowering, name: str, source: Tensor, shape: tuple[Index, ...], given: Any, combine: Combine, other: float
) -> Tensor:
    """Combine over windows of the trailing dimensions; positions outside count as ``other``."""
    spatial = len(given["kernel_size"])
    kernel, padding = list(given["kernel_size"]), _sized(given["padding"], spatial)
    stride = _sized(given["stride"] or kernel, spatial)
    dilation = _sized(given.get("dilation", 1), spatial)
    axes = lowering.axes(shape)
    taps = lowering.axes([Index.of(int(k)) for k in kernel])
    at, offsets = positions(axes), positions(taps)
    lead = len(shape) - spatial
    places = zip(at[lead:], stride, offsets, dilation, padding, strict=True)
    where = [p * s + t * d - q for p, s, t, d, q in places]
    # With ceil_mode a window may reach beyond the end although nothing is padded.
    bounds = [
        (w, size)
        for w, size, q, out, k, s, d in zip(
            where, source.shape[lead:], padding, shape[lead:], kernel, stride, dilation, strict=True
        )
        if q or not _inside(out, size, int(k), s, d)
    ]
    wanted = compute_dtype(source.dtype)
    value = cast(within(source.at([*at[:lead], *where]), bounds, cast(Const(other, "float64"), source.dtype)), wanted)
    stored = source.dtype if combine is Combine.MAX else wanted
    buffer = lowering.temporary(name, shape, stored)
    loops = tuple(a for a in axes if a.extent.constant != 1)
    reduced = tuple(t for t in taps if t.extent.constant != 1)
    lowering.operations.append(
        Reduction(buffer.name, loops, reduced, combine, value, (Target(buffer, at),), origins=(name,))
    )
    return lowering.wrap(buffer)


def _inside(out: Index, size: Index, kernel: int, stride: int, dilation: int) -> bool:
    if out.constant is None or size.constant is None:
        return False
    return (out.constant - 1) * stride + (kernel - 1) * dilation < size.constant


def _sized(value: Any, count: int) -> list[int]:
    values = [int(v) for v in value] if isinstance(value, (list, tuple)) else [int(value)]
    return values * count if len(values) == 1 else values


@lowers("max_pool2d_with_indices", "max_pool3d_with_indices")
def _max_pool(lowering: Lowering, node: fx.Node) -> Any:
    if any(user.target.__name__ != "getitem" or user.args[1] != 0 for user in node.users):  # type: ignore[union-attr]
        raise NotLowered("the positions of the largest values are used")
    given = arguments(node)
    source = lowering.tensor(given["self"])
    shape = lowering.shape(node.meta["val"][0])
    return _windows(lowering, node.name, source, shape, given, Combine.MAX, float("-inf")), None


@lowers("avg_pool1d", "avg_pool2d", "avg_pool3d")
def _average_pool(lowering: Lowering, node: fx.Node) -> Tensor:
    given = arguments(node)
    source = lowering.tensor(given["self"])
    padded = any(int(p) for p in given["padding"])
    if given.get("ceil_mode") or (padded and not given.get("count_include_pad", True)):
        raise NotLowered("windows of several sizes")
    result = lowering.dtype(node)
    total = _windows(lowering, f"{node.name}_sum", source, lowering.shape(node), given, Combine.SUM, 0.0)
    count = float(given.get("divisor_override") or math.prod(int(k) for k in given["kernel_size"]))

    def value(at: tuple[Index, ...]) -> Expr:
        x = total.value(at)
        return op("mul", x, Const(1.0 / count, x.dtype))

    return lowering.pointwise(node.name, total.shape, result, value)


@lowers("_adaptive_avg_pool2d", "_adaptive_avg_pool3d", "adaptive_avg_pool1d")
def _adaptive_average_pool(lowering: Lowering, node: fx.Node) -> Tensor:
    given = arguments(node)
    source = lowering.tensor(given["self"])
    shape = lowering.shape(node)
    outputs = list(given["output_size"])
    lead = len(shape) - len(outputs)
    sizes = [s.constant for s in source.shape[lead:]]
    if any(s is None or s % int(o) for s, o in zip(sizes, outputs, strict=True)):
        raise NotLowered("windows of several sizes")
    kernel = [int(s) // int(o) for s, o in zip(sizes, outputs, strict=True) if s is not None]
    windows = {"kernel_size": kernel, "stride": kernel, "padding": 0}
    total = _windows(lowering, f"{node.name}_sum", source, shape, windows, Combine.SUM, 0.0)
    count = float(math.prod(kernel))
    result = lowering.dtype(node)
    return lowering.pointwise(
        node.name, shape, result, lambda at: op("div", total.value(at), Const(count, compute_dtype(source.dtype)))
    )
