"""Integrity: what a right answer does not excuse. Inputs changed, memory shared, weights moved."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import torch

from kernelevolve.problems.outputs import flatten_outputs, plain_outputs
from kernelevolve.workers.layout import leaves, map_leaves

STATE_SHARE = 0.01
"""Part of what a call moves in a buffer that may be error."""
_LEFT_UNITS = 16
"""Units in the last place by which an input that is written to may differ from the reference's."""


@dataclass(frozen=True, slots=True)
class ReferenceEffects:
    """What the reference does besides returning; a candidate may do the same and nothing more."""

    aliases: frozenset[str] = frozenset()
    """Paths of outputs that use the memory of an input."""
    mutates: frozenset[str] = frozenset()
    """Paths of inputs that are changed."""
    plain: Mapping[str, Any] = field(default_factory=dict)
    """Parts of the result that are no tensors, by path: None, numbers, text."""
    fixed: frozenset[str] = frozenset()
    """Paths of those among them that do not hang on the inputs, as far as two calls can tell."""


def reference_effects(
    model: torch.nn.Module, inputs: tuple[Any, ...], others: tuple[Any, ...] | None = None
) -> ReferenceEffects:
    """Call the reference on copies of the inputs and see what it does to them.

    ``others`` are inputs of another draw: what is no tensor and comes out alike for both is taken to be fixed.
    """
    found = _effects(model, inputs)
    if others is None or not found.plain:
        return found
    again = _effects(model, others).plain
    fixed = {path for path, value in found.plain.items() if path in again and same_plain(value, again[path])}
    return replace(found, fixed=frozenset(fixed))


def same_plain(value: Any, other: Any) -> bool:
    """Whether two parts of results that are no tensors say the same."""
    if isinstance(value, float) and isinstance(other, float):
        return math.isclose(value, other, rel_tol=1e-6) or (math.isnan(value) and math.isnan(other))
    return type(value) is type(other) and bool(value == other)


def _effects(model: torch.nn.Module, inputs: tuple[Any, ...]) -> ReferenceEffects:
    copies = map_leaves(inputs, lambda leaf: leaf.detach().clone() if isinstance(leaf, torch.Tensor) else leaf)
    with torch.no_grad():
        outputs = model(*copies)
    storages = {leaf.untyped_storage().data_ptr() for _, leaf in leaves(copies) if isinstance(leaf, torch.Tensor)}
    tensors = flatten_outputs(outputs)
    return ReferenceEffects(
        aliases=frozenset(path for path, leaf in tensors if leaf.untyped_storage().data_ptr() in storages),
        mutates=frozenset(changed_inputs(inputs, copies, frozenset())),
        plain=dict(plain_outputs(outputs)),
    )


def changed_inputs(before: tuple[Any, ...], now: tuple[Any, ...], allowed: frozenset[str]) -> list[str]:
    """Paths of inputs whose bytes are no longer what the judge wrote."""
    changed = []
    for (path, old), (_, new) in zip(leaves(before), leaves(now), strict=True):
        if isinstance(old, torch.Tensor) and path not in allowed and not same_bytes(old, new):
            changed.append(path)
    return changed


def left_unchanged(expected: Mapping[str, torch.Tensor], now: tuple[Any, ...]) -> str | None:
    """Path of an input that does not hold what the reference leaves in it, or None.

    ``expected`` is what the reference leaves in its own dtype. What a program writes to an input is nearly always
    copied, so a limit of some units in the last place is wide enough.
    """
    leaf_by_path = dict(leaves(now))
    for path, want in expected.items():
        got = leaf_by_path[path]
        if not want.is_floating_point():
            if not torch.equal(got, want):
                return path
            continue
        wide = want.detach().double()
        tolerance = _LEFT_UNITS * torch.finfo(want.dtype).eps
        largest = float(wide.nan_to_num(0.0, 0.0, 0.0).abs().amax()) if wide.numel() else 0.0
        if not torch.allclose(got.detach().double(), wide, rtol=tolerance, atol=tolerance * largest, equal_nan=True):
            return path
    return None


def changed_weights(before: Mapping[str, torch.Tensor], now: Mapping[str, torch.Tensor]) -> list[str]:
    """Names of weights whose bytes changed."""
    return [name for name, old in before.items() if not same_bytes(old, now[name])]


def wrong_state(
    before: Mapping[str, torch.Tensor], expected: Mapping[str, torch.Tensor], now: Mapping[str, torch.Tensor]
) -> str | None:
    """Name of a weight or buffer that calls in training mode have not left as the reference leaves it, or None.

    What the reference does not touch must be untouched. What it moves (running statistics) must be moved likewise: the
    error is held against the size of the movement, because a mean near zero says nothing of the sums behind it.
    """
    for name, old in before.items():
        want, got = expected[name], now[name]
        if same_bytes(old, want) or not want.is_floating_point():
            if not same_bytes(want, got):
                return name
            continue
        moved, error = (want.double() - old.double()).norm(), (got.double() - want.double()).norm()
        if not error <= STATE_SHARE * moved:
            return name
    return None


def same_bytes(a: torch.Tensor, b: torch.Tensor) -> bool:
    """True if two tensors of equal dtype and shape hold the same bits (NaN equals itself)."""
    a, b = a.detach(), b.detach()
    if torch.equal(a, b):
        return True
    return a.is_floating_point() and torch.equal(_bits(a), _bits(b))


def _bits(tensor: torch.Tensor) -> torch.Tensor:
    return tensor.contiguous().reshape(-1).view(torch.uint8)
