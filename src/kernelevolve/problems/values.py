"""Values of a workload: how the inputs that a problem file made are redrawn, cast and laid out before use."""

from __future__ import annotations

import copy
import dataclasses
from collections.abc import Callable
from typing import Any

import torch

from kernelevolve.problems.workload import Workload


def map_tensors(value: Any, change: Callable[[torch.Tensor], torch.Tensor]) -> Any:
    """The same nested containers with every tensor changed."""
    if isinstance(value, torch.Tensor):
        return change(value)
    if isinstance(value, dict):
        changed = copy.copy(value)  # A mapping class of its own may not be made from pairs.
        changed.update({key: map_tensors(part, change) for key, part in value.items()})
        return changed
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return type(value)(*(map_tensors(part, change) for part in value))
    if isinstance(value, (tuple, list)):
        return type(value)(map_tensors(part, change) for part in value)
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        parts = {f.name: map_tensors(getattr(value, f.name), change) for f in dataclasses.fields(value) if f.init}
        return dataclasses.replace(value, **parts)
    return value


def strided_copy(tensor: torch.Tensor) -> torch.Tensor:
    """Equal values in memory in which no two dimensions could be merged: every other element of longer rows."""
    if tensor.dim() < 2 or tensor.numel() == 0:
        return tensor
    length = 2 * tensor.shape[-1]
    view = tensor.new_zeros((*tensor.shape[:-1], length + 1))[..., :length:2]
    view.copy_(tensor)
    return view


def distribute_inputs(inputs: tuple[Any, ...], workload: Workload) -> tuple[Any, ...]:
    """Inputs under the workload's distribution, dtype and layout; values of integers and bools stay as they are."""
    distribution = workload.distribution
    dtype = getattr(torch, workload.dtype) if workload.dtype else None

    def change(tensor: torch.Tensor) -> torch.Tensor:
        if tensor.is_floating_point():
            if distribution.normal:
                tensor = torch.randn_like(tensor)
            if distribution.scale != 1.0 or distribution.shift != 0.0:
                tensor = tensor * distribution.scale + distribution.shift
            tensor = tensor.to(dtype) if dtype is not None else tensor
        return tensor if workload.contiguous else strided_copy(tensor)

    distributed: tuple[Any, ...] = map_tensors(inputs, change)
    return distributed
