"""Weights of a workload: the parameters and buffers of a reference under the workload's distribution and dtype."""

from __future__ import annotations

import math

import torch
from torch import nn

from kernelevolve.problems.workload import Workload

_SPREAD = 0.3
"""Standard deviation of redrawn biases, gains and running means."""


def distribute_weights(model: nn.Module, workload: Workload) -> dict[str, torch.Tensor]:
    """The state dict of ``model``, changed in place, under the workload's distribution; integers stay as they are."""
    distribution = workload.distribution
    if distribution.fresh_statistics:
        redraw_weights(model)
    dtype = getattr(torch, workload.dtype) if workload.dtype else None
    state: dict[str, torch.Tensor] = {}
    for name, value in model.state_dict().items():
        tensor = value.detach()
        if tensor.is_floating_point():
            tensor = tensor * distribution.weight_scale if distribution.weight_scale != 1.0 else tensor
            tensor = tensor.to(dtype) if dtype is not None else tensor
        state[name] = tensor.clone()
    return state


@torch.no_grad()
def redraw_weights(model: nn.Module) -> None:
    """Replace parameters and normalisation statistics by random ones that keep the variance of a signal.

    With default initialisation a deep network's output hardly depends on its input, and BatchNorm in evaluation mode
    is the identity, so a wrong kernel may pass. Matrices and kernels become N(0, 1/fan_in) (LeCun's initialisation),
    embedding tables N(0, 1), vectors (biases and gains) their own mean plus N(0, 0.3²), running means N(0, 0.3²) and
    running variances U(0.5, 1.5). Other buffers, and everything that is not floating, stay as they are.
    """
    done: set[int] = set()
    for module in model.modules():
        for parameter in module.parameters(recurse=False):
            if parameter.is_floating_point() and parameter.numel() and id(parameter) not in done:
                done.add(id(parameter))
                parameter.copy_(_redrawn(module, parameter))
        for name, buffer in module.named_buffers(recurse=False):
            if name == "running_mean":
                buffer.normal_(0.0, _SPREAD)
            elif name == "running_var":
                buffer.uniform_(0.5, 1.5)


def _redrawn(module: nn.Module, parameter: torch.Tensor) -> torch.Tensor:
    noise = torch.randn_like(parameter)
    if isinstance(module, (nn.Embedding, nn.EmbeddingBag)):
        return noise
    if "Norm" in type(module).__name__ or sum(size > 1 for size in parameter.shape) <= 1:
        return parameter.mean() + _SPREAD * noise
    return noise * _deviation(module, parameter)


def _deviation(module: nn.Module, parameter: torch.Tensor) -> float:
    """1/sqrt(fan_in) of a matrix or a stack of kernels."""
    shape = parameter.shape
    if isinstance(module, nn.modules.conv._ConvTransposeNd):
        taps = math.prod(shape[2:]) / math.prod(module.stride)
        return 1.0 / math.sqrt(max(1.0, shape[0] // module.groups * taps))
    library = type(module).__module__.startswith("torch.nn") and not isinstance(module, nn.ParameterList)
    if library:
        return 1.0 / math.sqrt(math.prod(shape[1:]))
    # A bare parameter: which of its last two sizes is summed over is unknown, and what the file draws may be right.
    return max(1.0 / math.sqrt(max(shape[-2:])), float(parameter.std()))
