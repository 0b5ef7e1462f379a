"""Payload of a captured problem: a pickled module and its example inputs, as the problem's text uses them."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import nn

from kernelevolve.errors import InvalidProblem
from kernelevolve.hashing import digest_bytes
from kernelevolve.problems.values import map_tensors

_SAMPLE = 65536
"""Most values of an example that a distribution is estimated from."""
_FEW = 8
"""Up to so many distinct values a floating tensor is taken to be a mask or a code, not a quantity."""


@dataclass(frozen=True, slots=True)
class Payload:
    """A module with its weights, and arguments it was called with; everything on the CPU."""

    module: nn.Module
    inputs: tuple[Any, ...]
    """Positional arguments, then the values of ``keywords``."""
    keywords: tuple[str, ...] = ()
    """Names under which the last of ``inputs`` are passed."""


class FunctionModule(nn.Module):
    """A plain function as a module without weights."""

    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__()
        self.function = function

    def forward(self, *inputs: Any, **keywords: Any) -> Any:
        return self.function(*inputs, **keywords)


def load_payload(digest: str, files: Mapping[str, str]) -> Payload:
    """The payload of that SHA-256; InvalidProblem if its file is gone, was changed, or cannot be unpickled here."""
    path = Path(files[digest])
    fix = "capture the module again from Python"
    try:
        data = path.read_bytes()
    except OSError:
        raise InvalidProblem("the captured module is gone", path=path, fix=fix) from None
    if digest_bytes(data) != digest:
        raise InvalidProblem("the captured module is not the one that was written", path=path, fix=fix)
    try:
        loaded = pickle.loads(data)
    except Exception as error:
        reason = f"{type(error).__name__}: {error}".splitlines()[0]
        raise InvalidProblem(f"the captured module cannot be loaded: {reason}", path=path, fix=fix) from None
    assert isinstance(loaded, Payload)
    return loaded


def rebuild_tensor(
    data: bytes, dtype: torch.dtype, shape: tuple[int, ...], stride: tuple[int, ...], requires_grad: bool | None = None
) -> torch.Tensor:
    """A tensor from its elements in row-major order; a parameter if ``requires_grad`` is given."""
    elements = torch.frombuffer(bytearray(data), dtype=torch.uint8) if data else torch.empty(0, dtype=torch.uint8)
    tensor = elements.view(dtype).reshape(shape)
    if tensor.stride() != stride and 0 not in stride:
        tensor = torch.empty_strided(shape, stride, dtype=dtype).copy_(tensor)
    return tensor if requires_grad is None else nn.Parameter(tensor, requires_grad)


def model_class(payload: Payload) -> type[nn.Module]:
    """A class whose instances are copies of the captured module, under the same parameter names: ``Model``."""
    kind: Any = type(payload.module)

    class Model(kind):  # type: ignore[misc]
        def __init__(self) -> None:
            nn.Module.__init__(self)
            self.__dict__.update(copy.deepcopy(payload.module).__dict__)

    if not payload.keywords:
        return Model

    class KeywordModel(Model):
        def forward(self, *inputs: Any) -> Any:
            first = len(inputs) - len(payload.keywords)
            return super().forward(*inputs[:first], **dict(zip(payload.keywords, inputs[first:], strict=True)))

    return KeywordModel


def redraw(inputs: tuple[Any, ...]) -> list[Any]:
    """The example inputs with fresh values that keep what a callable may rely on; plain values stay as they are.

    * Floating tensors: draws from the example's own distribution (by its quantiles), so mean, deviation, sign and range
      stay. A constant stays constant, few distinct values (masks) are shuffled, sorted rows stay sorted, and a tensor
      with infinities or NaN is kept.
    * Integer tensors: the example's own values in another order, so indices stay in range and lengths keep their sum.
      Sorted ones are kept: they are offsets or positions more often than data.
    * Bool tensors are kept: a shuffled mask may leave a row empty.
    """
    device = torch.get_default_device()
    return list(map_tensors(inputs, lambda tensor: _redrawn(tensor.to(device))))


def _redrawn(tensor: torch.Tensor) -> torch.Tensor:
    if tensor.numel() < 2 or tensor.dtype is torch.bool or tensor.is_complex():
        return tensor.clone()
    ascending = tensor.dim() > 0 and bool((tensor.diff(dim=-1) >= 0).all())
    if not tensor.is_floating_point():
        return tensor.clone() if ascending else _shuffled(tensor)
    if not bool(torch.isfinite(tensor).all()):
        return tensor.clone()
    stride = -(-tensor.numel() // _SAMPLE)
    quantiles = tensor.reshape(-1)[::stride].double().sort().values
    if int((quantiles.diff() > 0).sum()) < _FEW <= tensor.numel():
        return _shuffled(tensor)
    position = torch.rand(tensor.shape, dtype=torch.float64) * (quantiles.numel() - 1)
    below = position.long().clamp(max=quantiles.numel() - 2)
    drawn = torch.lerp(quantiles[below], quantiles[below + 1], position - below).to(tensor.dtype)
    return drawn.sort(dim=-1).values if ascending and tensor.shape[-1] > 2 else drawn


def _shuffled(tensor: torch.Tensor) -> torch.Tensor:
    flat = tensor.reshape(-1)
    return flat[torch.randperm(flat.numel())].reshape(tensor.shape)
