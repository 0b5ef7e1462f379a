"""Outputs: the leaves of a nested result, each under a stable path."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any


def flatten_outputs(value: Any) -> list[tuple[str, Any]]:
    """All leaves of a result with their paths, in order: ``'0'`` for a bare value, ``'1.values'`` in nested ones.

    Tuples and lists number their parts, mappings and named tuples name them. Leaves may be of any type.
    """
    if _parts(value) is None:
        return [("0", value)]
    return list(_walk("", value))


def _walk(prefix: str, value: Any) -> Iterator[tuple[str, Any]]:
    parts = _parts(value)
    if parts is None:
        yield prefix, value
        return
    for name, part in parts:
        yield from _walk(f"{prefix}.{name}" if prefix else name, part)


def _parts(value: Any) -> list[tuple[str, Any]] | None:
    if isinstance(value, Mapping):
        return [(str(key), part) for key, part in value.items()]
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return [(name, getattr(value, name)) for name in value._fields]
    if isinstance(value, (tuple, list)):
        return [(str(i), part) for i, part in enumerate(value)]
    return None
