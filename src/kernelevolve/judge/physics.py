"""Physics: the least time in which a device could do a workload's work, from bytes and arithmetic. Always a lower bound.

What an honest kernel could avoid is not counted: rows of a table that no index names, products in a costlier
association, and writes that still fit the last-level cache when the clock stops.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import fx

from kernelevolve.errors import InvalidProblem
from kernelevolve.judge.verdict import Roofline
from kernelevolve.problems import Workload
from kernelevolve.problems.capture import Captured, capture
from kernelevolve.problems.instance import Instance
from kernelevolve.problems.outputs import flatten_outputs
from kernelevolve.targets import Ceilings

_VIEWS = frozenset({"view", "permute", "transpose", "expand", "unsqueeze", "squeeze", "slice", "select", "alias",
                    "reshape", "t", "unbind", "split", "split_with_sizes", "getitem", "_unsafe_view", "detach"})  # fmt: skip
_TABLE_ARGUMENT = {"embedding": (0, 1), "index_select": (0, 2), "gather": (0, 2), "bucketize": (1, 0),
                   "searchsorted": (0, 1), "_embedding_bag": (0, 1), "_embedding_bag_forward_only": (0, 1),
                   "index": (0, 1)}  # fmt: skip
"""Operator -> (argument that is a table, argument that says which of its rows are read)."""
_WINOGRAD = 0.44
"""F(4, 3) needs 4/9 of the multiplications of a direct 3x3 convolution of stride 1 (Lavin and Gray 2016)."""


def rooflines(instance: Instance, workloads: Sequence[Workload], ceilings: Ceilings) -> dict[str, Roofline]:
    """The roofline of each workload, by name; without a graph only inputs and outputs are counted."""
    return {w.name: _roofline(instance, w, ceilings) for w in workloads}


def with_time(roofline: Roofline, seconds: float) -> Roofline:
    """The same roofline with the fraction that a program of this time reaches."""
    fraction = roofline.floor_seconds / seconds if seconds > 0 else None
    return roofline.model_copy(update={"fraction": fraction})


def _roofline(instance: Instance, workload: Workload, ceilings: Ceilings) -> Roofline:
    inputs = dict(flatten_outputs(instance.make_inputs(workload, 0)))
    try:
        captured = capture(instance, workload)
    except InvalidProblem:
        moved, flops, dtype = 0.0, 0.0, "float32"
    else:
        moved = _bytes(captured, inputs, ceilings)
        flops, dtype = _flops(captured)
    memory = moved / max(ceilings.read_bandwidth, ceilings.copy_bandwidth)
    compute = flops / ceilings.flops.get(dtype, max(ceilings.flops.values(), default=math.inf))
    floor = max(memory, compute)
    bound = "launch" if floor < ceilings.launch_seconds else "memory" if memory >= compute else "compute"
    return Roofline(workload=workload.name, bytes=moved, flops=flops, floor_seconds=floor, bound=bound)


def _name(node: Any) -> str:
    if not isinstance(node, fx.Node) or node.op != "call_function":
        return ""
    packet = getattr(node.target, "overloadpacket", node.target)
    return str(getattr(packet, "__name__", packet))


def _size(value: Any) -> float:
    if isinstance(value, torch.Tensor):
        return float(value.numel() * value.element_size())
    return 0.0


def _bytes(captured: Captured, inputs: Mapping[str, Any], ceilings: Ceilings) -> float:
    placeholders = [n for n in captured.graph_module.graph.nodes if n.op == "placeholder"]
    first_input = len(placeholders) - len(captured.input_paths)
    values = {n: inputs[p] for n, p in zip(placeholders[first_input:], captured.input_paths, strict=True)}
    read = sum(_touched(node, values) for node in placeholders)
    (output,) = (n for n in captured.graph_module.graph.nodes if n.op == "output")
    written = sum(
        _size(node.meta.get("val"))
        for node in {n for n in output.args[0] if isinstance(n, fx.Node)}
        if _root(node).op != "placeholder"
    )
    return read + max(0.0, written - ceilings.cache_bytes)


def _root(node: fx.Node) -> fx.Node:
    """The node whose memory a chain of views shows."""
    while _name(node) in _VIEWS and isinstance(node.args[0], fx.Node):
        node = node.args[0]
    return node


def _touched(node: fx.Node, values: Mapping[fx.Node, Any]) -> float:
    """Bytes of a tensor that at least have to be read."""
    full = _size(node.meta.get("val"))
    total = 0.0
    for user in node.users:
        name = _name(user)
        if name in _VIEWS:
            total += _touched(user, values)
        elif name in _TABLE_ARGUMENT and _argument(user, _TABLE_ARGUMENT[name][0]) is node:
            total += _rows_touched(user, name, node, values)
        elif user.op != "output":
            return full
    return min(full, total)


def _rows_touched(user: fx.Node, name: str, table: fx.Node, values: Mapping[fx.Node, Any]) -> float:
    index = _argument(user, _TABLE_ARGUMENT[name][1])
    index = _root(index) if isinstance(index, fx.Node) else None
    shape = table.meta["val"].shape
    row = _size(table.meta["val"]) / max(1, shape[0]) if name not in ("gather", "bucketize", "searchsorted") else 1.0
    if name in ("bucketize", "searchsorted"):
        return 0.0  # The nodes near the root of the search stay in cache, and values may all fall into one bucket.
    indices = values.get(index) if index is not None else None
    if not isinstance(indices, torch.Tensor) or indices.is_floating_point():
        return 0.0
    return float(torch.unique(indices).numel()) * row


def _argument(node: fx.Node, position: int) -> Any:
    return node.args[position] if position < len(node.args) else None


def _flops(captured: Captured) -> tuple[float, str]:
    """Multiply-adds of matrix-like work counted as two, and the dtype in which most of them are done."""
    by_dtype: dict[str, float] = {}
    for node in captured.graph_module.graph.nodes:
        count = _product_flops(node)
        if count and not _only_summed(node):
            dtype = str(node.meta["val"].dtype).removeprefix("torch.")
            by_dtype[dtype] = by_dtype.get(dtype, 0.0) + count
    if not by_dtype:
        return 0.0, "float32"
    return sum(by_dtype.values()), max(by_dtype, key=lambda d: by_dtype[d])


def _only_summed(node: fx.Node) -> bool:
    """True if a product feeds only a sum or mean: the reduction commutes with it, and the product need not be made."""
    return bool(node.users) and all(_name(user) in ("sum", "mean") for user in node.users)


def _product_flops(node: fx.Node) -> float:
    name = _name(node)
    if name in ("mm", "bmm"):
        return _chain_flops(node)
    if name in ("addmm", "baddbmm"):
        return 2.0 * node.meta["val"].numel() * node.args[1].meta["val"].shape[-1]  # type: ignore[union-attr]
    if name == "linear":
        return 2.0 * node.meta["val"].numel() * node.args[0].meta["val"].shape[-1]  # type: ignore[union-attr]
    if name in ("convolution", "conv1d", "conv2d"):
        return _convolution_flops(node, name)
    return 0.0


def _chain_flops(node: fx.Node) -> float:
    """A product, in the cheapest association if one factor is itself a product used nowhere else."""
    if any(_name(u) in ("mm", "bmm") and _inner(u) is node for u in node.users) and len(node.users) == 1:
        return 0.0  # Counted with the product that uses it.
    left, right = node.args[0], node.args[1]
    assert isinstance(left, fx.Node) and isinstance(right, fx.Node)
    shape = node.meta["val"].shape
    batch = math.prod(shape[:-2])
    m, n, k = shape[-2], shape[-1], left.meta["val"].shape[-1]
    inner = _inner(node)
    if inner is None:
        return 2.0 * batch * m * n * k
    a, b = inner.args[0], inner.args[1]
    assert isinstance(a, fx.Node) and isinstance(b, fx.Node)
    p = a.meta["val"].shape[-1]
    if inner is right:  # left (m,k) @ [a (k,p) @ b (p,n)]
        return 2.0 * batch * min(k * p * n + m * k * n, m * k * p + m * p * n)
    return 2.0 * batch * min(m * p * k + m * k * n, p * k * n + m * p * n)


def _inner(node: fx.Node) -> fx.Node | None:
    for factor in (node.args[1], node.args[0]):
        if isinstance(factor, fx.Node) and _name(factor) in ("mm", "bmm") and len(factor.users) == 1:
            return factor
    return None


def _convolution_flops(node: fx.Node, name: str) -> float:
    data, weight = node.args[0], node.args[1]
    assert isinstance(data, fx.Node) and isinstance(weight, fx.Node)
    kernel = weight.meta["val"].shape
    transposed = name == "convolution" and bool(_argument(node, 6))
    positions = data.meta["val"].numel() if transposed else node.meta["val"].numel()
    direct = 2.0 * positions * math.prod(kernel[1:])
    if transposed:
        stride = math.prod(s for s in _argument(node, 3) or [1])
        return direct / stride if stride > 1 else direct * _WINOGRAD
    return direct * _WINOGRAD if 3 in kernel[2:] else direct
