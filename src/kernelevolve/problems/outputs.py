"""Outputs of a reference or candidate: a nested value as a flat list of named tensors."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping
from typing import Any

import torch


def flatten_outputs(value: Any) -> list[tuple[str, torch.Tensor]]:
    """Every tensor in ``value`` with its path, in a fixed order.

    A path joins indices, field names and keys by dots: ``'0'``, ``'1.values'``, ``'logits'``. A bare tensor has the
    path ``'0'``, so that ``f(x)`` and ``(f(x),)`` read the same. Leaves that are not tensors are left out; see
    ``plain_outputs``.
    """
    return [(path, leaf) for path, leaf in named_leaves(value) if isinstance(leaf, torch.Tensor)]


def plain_outputs(value: Any) -> list[tuple[str, Any]]:
    """Every leaf of ``value`` that is not a tensor (numbers, strings, None), with its path."""
    return [(path, leaf) for path, leaf in named_leaves(value) if not isinstance(leaf, torch.Tensor)]


def named_leaves(value: Any) -> list[tuple[str, Any]]:
    """All leaves of nested tuples, lists, mappings, named tuples and dataclasses, with their paths."""
    if _children(value) is None:
        return [("0", value)]
    return list(_walk(value, ()))


def _walk(value: Any, path: tuple[str, ...]) -> Iterator[tuple[str, Any]]:
    children = _children(value)
    if children is None:
        yield ".".join(path), value
        return
    for name, child in children:
        yield from _walk(child, (*path, name))


def _children(value: Any) -> list[tuple[str, Any]] | None:
    """Named parts of a container; None for a leaf."""
    if isinstance(value, Mapping):
        return [(str(key), child) for key, child in value.items()]
    if isinstance(value, tuple):
        # Named tuples, and the structure sequences that torch.max and torch.topk return, know their field names.
        names = getattr(value, "_fields", None) or getattr(value, "__match_args__", None)
        if names and len(names) == len(value):
            return list(zip(names, value, strict=True))
    if isinstance(value, (tuple, list)):
        return [(str(index), child) for index, child in enumerate(value)]
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return [(field.name, getattr(value, field.name)) for field in dataclasses.fields(value)]
    return None
