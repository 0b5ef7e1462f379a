"""Integrity: what a right answer does not excuse. Inputs changed, memory shared, weights moved, clocks that differ."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from statistics import median
from typing import Any

import torch

from kernelevolve.judge.session import Call
from kernelevolve.problems.outputs import flatten_outputs, plain_outputs
from kernelevolve.workers.layout import leaves, map_leaves

CLOCK_SHARE = 0.15
"""Share of an exchange by which the judge's clock may exceed the worker's."""
CLOCK_SLACK_SECONDS = 1e-3
"""What a hand-shake may cost on a busy machine."""
MEDIAN_SLACK_SECONDS = 5e-4
"""By how much the usual hand-shakes of two programs may differ."""
COLD_WARM_RATIO = 0.6
"""A call with cold caches takes at least this part of a call with warm ones, whatever is measured."""
LATE_SLACK_SECONDS = 1e-3
UNFINISHED_SLACK_SECONDS = 1e-4
"""By how much two exchanges over the same bytes may differ."""
STATE_SHARE = 0.01
"""Part of what a call moves in a buffer that may be error."""
_LEFT_UNITS = 16
"""Units in the last place by which an input that is written to may differ from the reference's."""
FLOOR_SHARE = 0.95
"""Part of the roofline floor below which no honest program runs; the rest is the error of the ceilings."""
BURST_SECONDS = 0.01
"""Least length of an exchange that is long against its hand-shake."""


def burst_repeats(seconds: float) -> int:
    """How many calls of this length make a burst."""
    return max(1, min(1000, math.ceil(BURST_SECONDS / max(seconds, 1e-7))))


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


def clock_disagreement(bursts: Sequence[Call]) -> str | None:
    """What is wrong with a worker's clock by its long exchanges, or None.

    The judge's reading contains the worker's and one hand-shake, so over a long exchange the two agree. The best of
    the third with the least delays counts: noise lengthens some exchanges, a false clock shortens every reading.
    """
    delays = sorted(call.delayed for call in bursts)
    usual = delays[math.ceil(len(bursts) / 3) - 1]
    best = min((call for call in bursts if call.delayed <= usual), key=lambda call: call.gap)
    if best.gap > CLOCK_SLACK_SECONDS + CLOCK_SHARE * best.outer:
        return f"the worker's clock says {best.wall * 1e3:.3f} ms where the judge's says {best.outer * 1e3:.3f} ms"
    if best.device is not None and best.wall - best.device > CLOCK_SLACK_SECONDS + CLOCK_SHARE * best.wall:
        return f"the device is said to have worked {best.device * 1e3:.3f} ms of {best.wall * 1e3:.3f} ms"
    return None


def long_handshakes(handshakes: Sequence[float], baselines: Sequence[Sequence[float]], seconds: float) -> str | None:
    """Whether single calls take so much longer by the judge's clock than the worker says that it must be false.

    ``handshakes`` are the differences between the two clocks, for the candidate and for each baseline, and ``seconds``
    is the candidate's time. What the machine adds falls on all of them alike, but not evenly: on a busy machine the
    hand-shakes of one program differ among themselves, and two programs may differ by as much. No true hand-shake takes
    less than nothing; a negative one was credited with a delay that fell outside it.
    """
    others = [values for values in baselines if values]
    if not handshakes or not others:
        return None
    mine, usual = median(handshakes), max(0.0, *map(median, others))
    slack = MEDIAN_SLACK_SECONDS + CLOCK_SHARE * (seconds + mine) + max(map(_half_spread, others))
    if mine - usual > slack:
        return f"the clocks differ by {mine * 1e3:.3f} ms for the candidate and by {usual * 1e3:.3f} ms for a baseline"
    return None


def _half_spread(values: Sequence[float]) -> float:
    """Half the range of the middle half: what noise does to most of the values."""
    ordered = sorted(values)
    return (ordered[3 * (len(ordered) - 1) // 4] - ordered[(len(ordered) - 1) // 4]) / 2


def cold_below_warm(cold: Sequence[float], bursts: Sequence[Call], repeats: int) -> str | None:
    """Whether single calls are faster than the judge's own clock allows by the same calls made in one go, or None."""
    warm = min(call.outer - call.delayed for call in bursts) / repeats
    single = median(cold)
    if single < COLD_WARM_RATIO * (warm - CLOCK_SLACK_SECONDS / repeats):
        return (
            f"a single call is said to take {single * 1e6:.1f} us, one of {repeats} in a row takes {warm * 1e6:.1f} us"
        )
    return None


def late_work(pulls: Sequence[float], baseline_pulls: Sequence[float], baseline_seconds: float) -> str | None:
    """Whether handing over the output takes so long that work must have been left for it, or None."""
    least, usual = min(pulls), max(baseline_pulls)
    if usual <= 0:  # More was waited for processors than the exchanges took: such a machine measures nothing.
        return None
    if least - usual > max(LATE_SLACK_SECONDS, baseline_seconds / 2):
        return f"handing over the output took {least * 1e3:.2f} ms, a baseline's takes {usual * 1e3:.2f} ms"
    return None


def unfinished_work(first: Sequence[float], again: Sequence[float], baseline_seconds: float) -> str | None:
    """Whether outputs take longer to be handed over for the first time than for the second, or None.

    Both times the same bytes are copied, so whatever the first takes longer is work that the call left for later. This
    needs no comparison with another program, whose outputs may have other strides, and sees less than ``late_work``.
    The least of the first times counts: a busy machine makes some of them longer, work that was left makes all longer.
    """
    if median(again) <= 0:  # As in ``late_work``.
        return None
    excess = min(first) - median(again)
    noise = UNFINISHED_SLACK_SECONDS + _half_spread(again)
    if excess > max(noise, baseline_seconds / 4):
        return f"an output takes {excess * 1e3:.3f} ms longer to be handed over for the first time than for the second"
    return None


def below_floor(seconds: float, baselines: Sequence[float], floor: float) -> str | None:
    """Whether a time is faster than the physics of the device allow, or None.

    A floor that a baseline passes too is a wrong floor (the ceilings were measured on a busy machine, say).
    """
    if seconds >= FLOOR_SHARE * floor or any(baseline < FLOOR_SHARE * floor for baseline in baselines):
        return None
    return (
        f"{seconds * 1e6:.2f} us is less than this device needs to move the data or do the sums, {floor * 1e6:.2f} us"
    )
