"""The table from ATen overloads to the functions that lower them; each file of the package adds its family."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

from torch import fx

from kernelevolve.operators.synthesis.lower.context import Lowering

Handler: TypeAlias = Callable[[Lowering, fx.Node], Any]
"""Lowers one node: returns a Tensor, a tuple of Tensors (None for an unused one), or raises NotLowered."""

_HANDLERS: dict[str, Handler] = {}


def lowers(*overloads: str) -> Callable[[Handler], Handler]:
    """Register a function for ATen overloads ('add.Tensor'; 'gelu' stands for 'gelu.default')."""

    def register(handler: Handler) -> Handler:
        for overload in overloads:
            name = overload if "." in overload else f"{overload}.default"
            assert name not in _HANDLERS, name
            _HANDLERS[name] = handler
        return handler

    return register


def handler_for(node: fx.Node) -> Handler | None:
    """The function that lowers a node, if there is one."""
    name = str(node.target)
    return _HANDLERS.get(name.removeprefix("aten.")) if name.startswith("aten.") else None


def arguments(node: fx.Node) -> Mapping[str, Any]:
    """All arguments of a node by name, defaults filled in."""
    schema = node.target._schema  # type: ignore[union-attr]
    given = dict(zip((a.name for a in schema.arguments), node.args, strict=False))
    given.update(node.kwargs)
    for argument in schema.arguments:
        if argument.name not in given:
            given[argument.name] = argument.default_value
    return given
