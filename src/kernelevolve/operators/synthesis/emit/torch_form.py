"""The captured graph as plain torch calls: what a candidate runs where its kernels do not fit."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

import torch
from torch import fx

from kernelevolve.problems.capture import Captured

_INFIX: dict[Callable[..., Any], str] = {
    operator.add: "+", operator.sub: "-", operator.mul: "*", operator.floordiv: "//", operator.mod: "%",
    operator.truediv: "/", operator.pow: "**",
}  # fmt: skip


def torch_statements(captured: Captured) -> tuple[list[str], list[str], list[str]]:
    """``(parameters, statements, results)``: names of the placeholders, the body, and the names of the outputs.

    A value is released after its last use, so that the form needs no more memory than the reference.
    """
    nodes = list(captured.graph_module.graph.nodes)
    last: dict[fx.Node, int] = {}
    for number, node in enumerate(nodes):
        for used in node.all_input_nodes:
            last[used] = number
    parameters = [n.name for n in nodes if n.op == "placeholder"]
    statements: list[str] = []
    results: list[str] = []
    for number, node in enumerate(nodes):
        if node.op == "output":
            results = [_text(v) for v in node.args[0]]
        elif node.op == "call_function":
            statements.append(f"{node.name} = {_call(node)}")
            dead = [n.name for n in node.all_input_nodes if last[n] == number and n.op != "placeholder"]
            if dead:
                statements.append(f"del {', '.join(dead)}")
    return parameters, statements, results


def _call(node: fx.Node) -> str:
    target = node.target
    if target is operator.getitem:
        return f"{_text(node.args[0])}[{node.args[1]}]"
    if target in _INFIX:
        left, right = (_text(a) for a in node.args)
        return f"{left} {_INFIX[target]} {right}"
    if str(target) == "aten.sym_size.int":
        return f"{_text(node.args[0])}.shape[{node.args[1]}]"
    if isinstance(target, torch._ops.OpOverload):
        arguments = [_text(a) for a in node.args] + [f"{k}={_text(v)}" for k, v in node.kwargs.items()]
        return f"torch.ops.{target}({', '.join(arguments)})"
    # What is left are functions on sizes: torch.sym_max, math.floor …
    module = "torch" if str(getattr(target, "__module__", "")).startswith("torch") else "math"
    return f"{module}.{getattr(target, '__name__', target)}({', '.join(_text(a) for a in node.args)})"


def _text(value: Any) -> str:
    """An argument as Python text."""
    if isinstance(value, fx.Node):
        return value.name
    if isinstance(value, (list, tuple)):
        return f"[{', '.join(_text(v) for v in value)}]"
    if isinstance(value, float):
        return literal(value)
    if isinstance(value, torch.device):
        return f'torch.device("{value}")'
    return repr(value)


def literal(value: Any) -> str:
    """A plain value as Python text that needs no names but ``float``."""
    if isinstance(value, float) and (value != value or value in (float("inf"), float("-inf"))):
        return f'float("{value}")'
    if isinstance(value, list):
        return f"[{', '.join(literal(v) for v in value)}]"
    return repr(value)
