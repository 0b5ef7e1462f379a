"""Comparison of a candidate's outputs with the golden ones."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping

import torch

from kernelevolve.judge.oracle import Case, ExpectedOutput
from kernelevolve.judge.verdict import OutputError

_CHUNK = {"cpu": 1 << 18, "cuda": 1 << 26}
"""Elements compared at a time: on a CPU what stays in its cache as fp64, on a GPU what keeps it busy; never all of an
output of several gigabytes, whose double would not fit beside it."""


class StructureMismatch(Exception):
    """Outputs that differ from the reference's in number, shape or dtype; the message is one sentence."""


def compare(case: Case, outputs: Mapping[str, torch.Tensor]) -> list[OutputError]:
    """The error of every output against the golden.

    ``outputs`` maps output paths to tensors on the golden's device. Integers and bools must be equal: their error is
    the difference, their limit 0. NaN and infinities must be where the reference has them, with its sign; anywhere else
    one of them makes the error infinite. Where the reference overflows in its own dtype and the golden does not, the
    true value is right as well. Raises StructureMismatch.
    """
    expected_paths = {expected.path for expected in case.expected}
    for path in outputs:
        if path not in expected_paths:
            raise StructureMismatch(f"there is an output {path} that the reference does not have")
    return [_compare_one(case, expected, outputs.get(expected.path)) for expected in case.expected]


def _compare_one(case: Case, expected: ExpectedOutput, output: torch.Tensor | None) -> OutputError:
    path = expected.path
    if output is None:
        raise StructureMismatch(f"there is no output {path}")
    if tuple(output.shape) != expected.shape:
        raise StructureMismatch(
            f"output {path} has shape {list(output.shape)}, the reference's has {list(expected.shape)}"
        )
    if output.dtype != expected.dtype:
        raise StructureMismatch(f"output {path} is {_name(output.dtype)}, the reference's is {_name(expected.dtype)}")
    flat = _Flat(expected, output)
    root, largest = _norms(flat)
    rms = root / math.sqrt(flat.numel) if flat.numel else 0.0
    error = OutputError(
        workload=case.workload.name, output=path, rms=rms, rms_limit=expected.rms_limit, max=largest,
        max_limit=expected.max_limit, moved_rms=expected.moved_rms, reference_rms=expected.reference_rms,
    )  # fmt: skip
    if error.passed:
        return error
    first = _first_above(flat, expected.max_limit if largest > expected.max_limit else math.nextafter(largest, 0.0))
    at = first // 2 if expected.dtype.is_complex else first
    return error.model_copy(
        update={
            "first_index": tuple(int(i) for i in torch.unravel_index(torch.tensor(at), expected.shape)),
            "first_got": float(flat.got[first]),
            "first_expected": float(flat.want[first]),
        }
    )


class _Flat:
    """An output and what is expected of it as vectors of real numbers, and the error between them, in chunks."""

    def __init__(self, expected: ExpectedOutput, output: torch.Tensor) -> None:
        self.got, self.want = _vector(output), _vector(expected.golden)
        self.special = None if expected.special is None else _vector(expected.special)
        self.numel = self.got.numel()
        self._chunk = _CHUNK.get(output.device.type, _CHUNK["cpu"])

    def __iter__(self) -> Iterator[tuple[int, torch.Tensor]]:
        """Start of each chunk and its error in fp64."""
        for start in range(0, self.numel, self._chunk):
            part = slice(start, start + self._chunk)
            special = None if self.special is None else self.special[part]
            yield start, _error(self.got[part], self.want[part], special)


def _norms(flat: _Flat) -> tuple[float, float]:
    """Euclidean norm and largest magnitude of the error, infinite for NaN. One wait for the device, at the end."""
    found = [torch.stack((torch.dot(error, error), *torch.aminmax(error))) for _, error in flat]
    if not found:
        return 0.0, 0.0
    squares, lows, highs = torch.stack(found).T.cpu().nan_to_num_(nan=math.inf, posinf=math.inf, neginf=-math.inf)
    return math.sqrt(float(squares.sum())), max(abs(float(lows.min())), abs(float(highs.max())))


def _first_above(flat: _Flat, limit: float) -> int:
    """Position of the first element whose error is above the limit; there is one."""
    for start, error in flat:
        above = (~(error.abs() <= limit)).nonzero()
        if len(above):
            return start + int(above[0, 0])
    raise AssertionError("no element is above the limit")


def _error(got: torch.Tensor, want: torch.Tensor, special: torch.Tensor | None) -> torch.Tensor:
    if not want.is_floating_point():
        # The difference of two int64 wraps around, but it is 0 only for equal ones; fp64 would merge neighbours.
        return (got.long() - want.long()).double()
    error = got.to(torch.float64).sub_(want)
    if special is not None:
        regular = torch.isfinite(special)
        same = (got == special) | (torch.isnan(got) & torch.isnan(special))
        error = torch.where(regular | (torch.isfinite(want) & ~same), error, torch.where(same, 0.0, math.inf))
    return error


def _vector(tensor: torch.Tensor) -> torch.Tensor:
    tensor = torch.view_as_real(tensor.resolve_conj()) if tensor.is_complex() else tensor
    return tensor.reshape(-1)


def _name(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")
