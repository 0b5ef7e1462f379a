"""Comparison of a candidate's outputs with the golden ones."""

from __future__ import annotations

from collections.abc import Mapping

import torch

from kernelevolve.judge.oracle import Case, ExpectedOutput
from kernelevolve.judge.verdict import OutputError

_CHUNK = 1 << 24
"""Elements compared at a time: outputs of several gigabytes must not be doubled in fp64."""


class StructureMismatch(Exception):
    """Outputs that differ from the reference's in number, shape or dtype; the message is one sentence."""


def compare(case: Case, outputs: Mapping[str, torch.Tensor]) -> list[OutputError]:
    """The error of every output against the golden.

    ``outputs`` maps output paths to tensors on the golden's device. Raises StructureMismatch. Integers and bools must be
    equal: their error is the largest difference, their limit 0. NaN and infinities must be where the reference has them;
    one elsewhere makes the error infinite.
    """
    missing = [e.path for e in case.expected if e.path not in outputs]
    if missing:
        raise StructureMismatch(f"output {missing[0]} is missing")
    return [_compare_one(case, expected, outputs[expected.path]) for expected in case.expected]


def _compare_one(case: Case, expected: ExpectedOutput, output: torch.Tensor) -> OutputError:
    if tuple(output.shape) != expected.shape:
        raise StructureMismatch(
            f"output {expected.path} has shape {list(output.shape)}, the reference's has {list(expected.shape)}"
        )
    if output.dtype != expected.dtype:
        raise StructureMismatch(f"output {expected.path} is {output.dtype}, the reference's is {expected.dtype}")
    got, want = output.reshape(-1), expected.golden.reshape(-1)
    special = expected.special.reshape(-1) if expected.special is not None else None
    square, largest, first = 0.0, 0.0, None
    for start in range(0, got.numel(), _CHUNK):
        part = slice(start, start + _CHUNK)
        error = _absolute_error(got[part], want[part], special[part] if special is not None else None)
        top = float(error.max())
        square += float(torch.dot(error, error)) if error.dtype.is_floating_point else 0.0
        largest = max(largest, top)
        if first is None and not top <= expected.max_limit:
            first = start + int((~(error <= expected.max_limit)).nonzero()[0, 0])
    rms = (square / got.numel()) ** 0.5 if got.numel() else 0.0
    if first is None and not rms <= expected.rms_limit:
        first = int(_absolute_error(got, want, special).argmax())
    where = None if first is None else tuple(int(i) for i in torch.unravel_index(torch.tensor(first), expected.shape))
    return OutputError(
        workload=case.workload.name, output=expected.path, rms=rms, rms_limit=expected.rms_limit, max=largest,
        max_limit=expected.max_limit, moved_rms=expected.moved_rms, reference_rms=expected.reference_rms,
        first_index=where,
        first_got=None if first is None else float(got[first]),
        first_expected=None if first is None else float(want[first]),
    )  # fmt: skip


def _absolute_error(got: torch.Tensor, want: torch.Tensor, special: torch.Tensor | None) -> torch.Tensor:
    """|got - want| in fp64; infinite where one of them alone is not finite."""
    if not got.is_floating_point():
        # Equal or not: the difference of two int64 may overflow, and fp64 holds only 53 bits.
        difference = (got.double() - want.double()).abs()
        return torch.where(got == want, 0.0, difference.clamp(min=1.0))
    error = (got.double() - want).abs()
    if special is None:
        return torch.where(torch.isfinite(got), error, torch.inf)
    allowed = torch.isfinite(special)
    same = (got == special) | (torch.isnan(got) & torch.isnan(special))
    # Where the reference overflowed and the golden did not, the true value is right as well.
    same |= ~allowed & torch.isfinite(want) & torch.isfinite(got)
    return torch.where(allowed, torch.where(torch.isfinite(got), error, torch.inf), torch.where(same, 0.0, torch.inf))
