"""Lowering: a captured ATen graph becomes a Program of loop-level operations.

Each file of this package adds one family of overloads to the table. A node without a handler, or in a form that its
handler declines, stays a torch call (``Extern``); its results are buffers like any other.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import sympy  # type: ignore[import-untyped]
import torch
from torch import fx

from kernelevolve.operators.synthesis.buffer import Buffer, Role
from kernelevolve.operators.synthesis.expr import Load
from kernelevolve.operators.synthesis.index import Index, Size
from kernelevolve.operators.synthesis.ir import Operation, Program, SizeBinding
from kernelevolve.operators.synthesis.lower import (  # noqa: F401 - each registers its overloads
    indexing,
    normalisation,
    pointwise,
    pooling,
    products,
    reductions,
    views,
)
from kernelevolve.operators.synthesis.lower.context import (
    Lowering,
    NotLowered,
    Tensor,
    covers,
    dtype_name,
    symbolic_sizes,
)
from kernelevolve.operators.synthesis.lower.externs import extern
from kernelevolve.operators.synthesis.lower.retarget import retarget
from kernelevolve.operators.synthesis.lower.table import handler_for
from kernelevolve.problems.capture import Captured

__all__ = ["NotLowered", "lower"]


def lower(captured: Captured, fixed: Mapping[str, int] | None = None) -> Program:
    """The graph as a program. ``fixed`` gives runtime sizes (by graph symbol) that are constants in this program.

    Raises NotLowered if an input, weight or output has no loop form at all (complex numbers).
    """
    nodes = list(captured.graph_module.graph.nodes)
    placeholders = [n for n in nodes if n.op == "placeholder"]
    weights, constants = len(captured.weight_names), len(captured.constants)
    names, bindings, hints = _bind_sizes(nodes, fixed or {})
    lowering = Lowering(symbolic_sizes(names))
    buffers: list[Buffer] = []
    for position, node in enumerate(placeholders):
        role = Role.WEIGHT if position < weights else Role.CONSTANT if position < weights + constants else Role.INPUT
        fake = node.meta["val"]
        buffer = Buffer(lowering.name(node.name), lowering.shape(fake), dtype_name(fake.dtype), role)
        buffers.append(buffer)
        lowering.values[node] = lowering.wrap(buffer)
    for node in nodes:
        if node.op == "call_function" and "val" in node.meta:
            lowering.values[node] = _lower_node(lowering, node)
    (output,) = (n for n in nodes if n.op == "output")
    results = output.args[0]
    operations, outputs = _outputs(lowering, results if isinstance(results, (list, tuple)) else (results,))
    return Program(
        inputs=tuple(buffers[weights + constants :]), weights=tuple(buffers[:weights]),
        constants=tuple(buffers[weights : weights + constants]), operations=operations, outputs=outputs,
        sizes=bindings, size_hints=hints,
    )  # fmt: skip


def _bind_sizes(
    nodes: list[fx.Node], fixed: Mapping[str, int]
) -> tuple[dict[str, Index], tuple[SizeBinding, ...], dict[str, int]]:
    """What each symbol of the graph stands for, in order of appearance, and where its value is read.

    A size that the graph divides by an integer is that integer times a runtime size, so that quotients vanish.
    """
    divisors = _divisors(nodes)
    names: dict[str, Index] = {}
    bindings: list[SizeBinding] = []
    hints: dict[str, int] = {}
    for node in nodes:
        if node.op != "placeholder":
            continue
        for dim, size in enumerate(node.meta["val"].shape):
            if not isinstance(size, torch.SymInt) or not size.node.expr.is_Symbol:
                continue
            symbol = str(size.node.expr)
            if symbol in names:
                continue
            if symbol in fixed:
                names[symbol] = Index.of(fixed[symbol])
                continue
            short = Size(f"s{len(bindings)}")
            hint = int(size.node.hint)
            divisor = math.lcm(*(d for d in divisors.get(symbol, ()) if hint % d == 0))
            names[symbol] = Index.of(short) * divisor
            bindings.append(SizeBinding(short, node.name, dim, divisor))
            hints[short.name] = hint // divisor
    return names, tuple(bindings), hints


def _divisors(nodes: list[fx.Node]) -> dict[str, set[int]]:
    """The integers by which symbols are divided in the sizes of a graph."""
    found: dict[str, set[int]] = {}
    for node in nodes:
        value = node.meta.get("val")
        sizes = list(value.shape) if isinstance(value, torch.Tensor) else [value]
        for size in sizes:
            if not isinstance(size, torch.SymInt):
                continue
            for part in sympy.preorder_traversal(size.node.expr):
                divides = type(part).__name__ in ("FloorDiv", "Mod", "PythonMod", "CleanDiv")
                if divides and part.args[0].is_Symbol and part.args[1].is_Integer:
                    found.setdefault(str(part.args[0]), set()).add(int(part.args[1]))
    return found


def _lower_node(lowering: Lowering, node: fx.Node) -> Any:
    if node.target is operator.getitem:
        return lowering.values[node.args[0]][node.args[1]]  # type: ignore[index]
    value = node.meta.get("val")
    if isinstance(value, (int, torch.SymInt)) and not isinstance(value, bool):
        return lowering.size(value)
    handler = handler_for(node)
    before = len(lowering.operations)
    try:
        if handler is not None:
            return handler(lowering, node)
    except NotLowered:
        del lowering.operations[before:]
    return extern(lowering, node)


def _outputs(lowering: Lowering, nodes: Any) -> tuple[tuple[Operation, ...], tuple[Buffer, ...]]:
    """Every result gets a buffer of its own with the role OUTPUT; a view, a literal or an input is copied into one."""
    made: dict[Buffer, Buffer] = {}
    outputs: list[Buffer] = []
    for number, node in enumerate(nodes):
        tensor = lowering.values[node]
        assert isinstance(tensor, Tensor)
        expr = tensor.expr
        if (
            isinstance(expr, Load)
            and expr.buffer.role is Role.TEMPORARY
            and expr.buffer not in made
            and covers(tensor, expr)
        ):
            source = expr.buffer
        else:
            copy = lowering.pointwise(f"out{number}", tensor.shape, tensor.dtype, tensor.value)
            assert isinstance(copy.expr, Load)
            source = copy.expr.buffer
        made[source] = replace(source, role=Role.OUTPUT)
        outputs.append(made[source])
    return tuple(retarget(operation, made) for operation in lowering.operations), tuple(outputs)
