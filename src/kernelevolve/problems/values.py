"""Values of a workload: how inputs and weights that a problem file made are cast, moved and redrawn before use."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch

from kernelevolve.problems.workload import Workload


def map_tensors(value: Any, change: Callable[[torch.Tensor], torch.Tensor]) -> Any:
    """The same nested containers with every tensor changed."""
    if isinstance(value, torch.Tensor):
        return change(value)
    if isinstance(value, dict):
        return {key: map_tensors(part, change) for key, part in value.items()}
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return type(value)(*(map_tensors(part, change) for part in value))
    if isinstance(value, (tuple, list)):
        return type(value)(map_tensors(part, change) for part in value)
    return value


def strided_copy(tensor: torch.Tensor) -> torch.Tensor:
    """Equal values in memory that is not contiguous: a view of every other element of the last dimension."""
    if tensor.dim() < 2 or tensor.numel() == 0:
        return tensor
    wide = tensor.new_zeros((*tensor.shape[:-1], 2 * tensor.shape[-1]))
    view = wide[..., ::2]
    view.copy_(tensor)
    return view


def transform_inputs(inputs: tuple[Any, ...], workload: Workload) -> tuple[Any, ...]:
    """Floating inputs under the workload's distribution and dtype; integers and bools stay as they are."""
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

    changed: tuple[Any, ...] = map_tensors(inputs, change)
    return changed


def transform_weights(state: dict[str, torch.Tensor], workload: Workload) -> dict[str, torch.Tensor]:
    """Floating weights under the workload's distribution and dtype."""
    dtype = getattr(torch, workload.dtype) if workload.dtype else None
    distribution = workload.distribution
    changed = {}
    for name, tensor in state.items():
        if tensor.is_floating_point():
            if distribution.fresh_statistics:
                tensor = fresh_weight(name, tensor)
            if distribution.weight_scale != 1.0:
                tensor = tensor * distribution.weight_scale
            tensor = tensor.to(dtype) if dtype is not None else tensor
        changed[name] = tensor.clone()
    return changed


def fresh_weight(name: str, tensor: torch.Tensor) -> torch.Tensor:
    """A random weight that keeps the variance of a signal, so that a deep network's output depends on its input.

    Matrices and kernels: N(0, 1/fan_in) (LeCun's initialisation); gains around 1; biases and running means around 0;
    running variances between 0.5 and 1.5.
    """
    leaf = name.rsplit(".", 1)[-1]
    if leaf == "running_var":
        return torch.rand_like(tensor) + 0.5
    if leaf == "running_mean" or "bias" in leaf:
        return 0.3 * torch.randn_like(tensor)
    if tensor.dim() <= 1:
        return 1.0 + 0.3 * torch.randn_like(tensor) if "weight" in leaf or tensor.dim() == 0 else torch.randn_like(tensor)
    fan_in = math.prod(tensor.shape[1:])
    return torch.randn_like(tensor) / math.sqrt(max(1, fan_in))


