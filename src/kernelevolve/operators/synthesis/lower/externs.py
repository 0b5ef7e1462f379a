"""Torch calls that stay torch calls."""

from __future__ import annotations

from typing import Any

import torch
from torch import fx

from kernelevolve.operators.synthesis.buffer import Buffer
from kernelevolve.operators.synthesis.ir import Extern
from kernelevolve.operators.synthesis.lower.context import Lowering, NotLowered, Tensor, dtype_name


def extern(lowering: Lowering, node: fx.Node) -> Any:
    """Add the node as a torch call; its results are fresh buffers, made contiguous.

    Raises NotLowered if a result that is read has a dtype without a loop form.
    """
    values = node.meta["val"]
    several = isinstance(values, (list, tuple))
    fakes = list(values) if several else [values]
    buffers: list[Buffer | None] = []
    used = {user.args[1] for user in node.users} if several else {0}
    for number, fake in enumerate(fakes):
        if not isinstance(fake, torch.Tensor) or number not in used:
            buffers.append(None)
            continue
        name = f"{node.name}_{number}" if several else node.name
        buffers.append(lowering.temporary(name, lowering.shape(fake), dtype_name(fake.dtype)))
    args = tuple(_argument(lowering, a, node.name) for a in node.args)
    kwargs = {k: _argument(lowering, v, node.name) for k, v in node.kwargs.items()}
    name = str(node.target).removesuffix(".default")
    lowering.operations.append(
        Extern(lowering.name(f"{node.name}_call"), name, args, kwargs, tuple(buffers), several, (node.name,))
    )
    results = tuple(None if b is None else lowering.wrap(b) for b in buffers)
    return results if several else results[0]


def _argument(lowering: Lowering, value: Any, name: str) -> Any:
    if isinstance(value, fx.Node):
        held = lowering.values[value]
        if isinstance(held, Tensor):
            return lowering.strided(held, f"{name}_in")
        if held is None:
            raise NotLowered("a result without a loop form is read")
        return held
    if isinstance(value, torch.SymInt):
        return lowering.size(value)
    if isinstance(value, (list, tuple)):
        return [_argument(lowering, v, name) for v in value]
    return value
