"""Where tensors lie in a block of shared memory, and how nested arguments are written as places in it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import zip_longest
from typing import Any

import torch
from torch.utils.dlpack import from_dlpack

ALIGNMENT = 512
"""Bytes; what torch's own device allocators give, so that vectorised loads behave as they do outside."""


@dataclass(frozen=True, slots=True)
class TensorSlot:
    """A tensor's place in an arena. ``shape`` and ``stride`` count elements, ``offset`` bytes."""

    offset: int
    shape: tuple[int, ...]
    stride: tuple[int, ...]
    dtype: str
    requires_grad: bool = False

    @property
    def torch_dtype(self) -> torch.dtype:
        """The dtype as torch names it."""
        dtype = getattr(torch, self.dtype)
        assert isinstance(dtype, torch.dtype)
        return dtype

    @property
    def extent(self) -> int:
        """Bytes from the first to the last element, both included."""
        if 0 in self.shape:
            return 0
        last = sum((size - 1) * step for size, step in zip(self.shape, self.stride, strict=True))
        return (last + 1) * self.torch_dtype.itemsize

    def view(self, memory: torch.Tensor) -> torch.Tensor:
        """The tensor at this place of ``memory`` (uint8, one dimension), as the only tensor of a storage of its own.

        A program sees what it would see outside: storage offset 0, and no way from one input to another.
        """
        if self.extent == 0:
            return torch.empty_strided(self.shape, self.stride, dtype=self.torch_dtype, device=memory.device)
        flat = from_dlpack(memory[self.offset : self.offset + self.extent])
        return flat.view(self.torch_dtype).as_strided(self.shape, self.stride)

    def write(self, memory: torch.Tensor, values: torch.Tensor) -> None:
        """Copy values in; a dimension of stride 0 holds one element and is written once."""
        place = self.view(memory)
        for dim, step in enumerate(self.stride):
            if step == 0 and self.shape[dim] > 1:
                place, values = place.narrow(dim, 0, 1), values.narrow(dim, 0, 1)
        place.copy_(values)


class Layout:
    """Places tensors one after the other, with at least ``gap`` bytes around each that belong to none."""

    def __init__(self, gap: int = 0) -> None:
        self._gap = -(-gap // ALIGNMENT) * ALIGNMENT
        self.bytes = self._gap

    def place(self, tensor: torch.Tensor) -> TensorSlot:
        """A place for a tensor of the same shape, strides and dtype."""
        return self.reserve(tuple(tensor.shape), tensor.dtype, tuple(tensor.stride()), tensor.requires_grad)

    def reserve(
        self,
        shape: tuple[int, ...],
        dtype: torch.dtype,
        stride: tuple[int, ...] | None = None,
        requires_grad: bool = False,
    ) -> TensorSlot:
        """A place for a tensor; dense in row-major order unless strides are given."""
        if stride is None:
            stride = torch.empty(shape, device="meta").stride()
        slot = TensorSlot(self.bytes, shape, stride, str(dtype).removeprefix("torch."), requires_grad)
        self.bytes += -(-max(1, slot.extent) // ALIGNMENT) * ALIGNMENT + self._gap
        return slot

    def place_all(self, tree: Any) -> Any:
        """The same nesting with every tensor replaced by its place."""
        return map_leaves(tree, lambda leaf: self.place(leaf) if isinstance(leaf, torch.Tensor) else leaf)


def map_leaves(tree: Any, change: Callable[[Any], Any]) -> Any:
    """Apply ``change`` to every leaf of nested tuples, named tuples, lists and dicts."""
    if isinstance(tree, tuple) and hasattr(tree, "_fields"):
        return type(tree)(*(map_leaves(item, change) for item in tree))
    if isinstance(tree, (tuple, list)):
        return type(tree)(map_leaves(item, change) for item in tree)
    if isinstance(tree, dict):
        return {key: map_leaves(value, change) for key, value in tree.items()}
    return change(tree)


def leaves(tree: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    """Every leaf of the same containers with its path, e.g. ``0`` or ``1.mask``."""
    if isinstance(tree, (tuple, list, dict)):
        parts = tree.items() if isinstance(tree, dict) else enumerate(tree)
        for key, item in parts:
            yield from leaves(item, f"{path}.{key}" if path else str(key))
    else:
        yield path, tree


def same_leaves(a: Any, b: Any) -> bool:
    """True if two nestings hold equal places and plain values; values that cannot be compared count as different."""
    pairs = zip_longest(leaves(a), leaves(b))
    try:
        return all(x is not None and y is not None and x[0] == y[0] and bool(x[1] == y[1]) for x, y in pairs)
    except (TypeError, ValueError, RuntimeError):
        return False


def materialise(tree: Any, memory: torch.Tensor) -> Any:
    """The nesting with every place replaced by the tensor that lies there; nothing is copied."""

    def tensor(leaf: Any) -> Any:
        if not isinstance(leaf, TensorSlot):
            return leaf
        view = leaf.view(memory)
        return view.requires_grad_() if leaf.requires_grad else view

    return map_leaves(tree, tensor)


def write_all(slots: Any, values: Any, memory: torch.Tensor) -> None:
    """Copy every tensor of ``values`` to its place; both nestings are equal."""
    for (_, slot), (_, value) in zip(leaves(slots), leaves(values), strict=True):
        if isinstance(slot, TensorSlot):
            slot.write(memory, value)
