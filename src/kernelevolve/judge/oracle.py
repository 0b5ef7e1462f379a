"""Oracle: what a workload's outputs must be, and how far from that a candidate may be. Lives in the judge's process."""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn
from torch.utils._python_dispatch import TorchDispatchMode

from kernelevolve.errors import InvalidProblem
from kernelevolve.problems import TolerancePolicy, Workload
from kernelevolve.problems.instance import Instance
from kernelevolve.problems.outputs import flatten_outputs
from kernelevolve.problems.values import map_tensors

_NARROW = (torch.float32, torch.float16, torch.bfloat16)


@dataclass(frozen=True)
class ExpectedOutput:
    """One output of the reference on one case, and the limits on a candidate's error (in the output's own units)."""

    path: str
    golden: torch.Tensor
    """fp64 for floating outputs, the exact values for integers and bools; on the device."""
    dtype: torch.dtype
    """Of the reference's own output."""
    shape: tuple[int, ...]
    reference_rms: float
    reference_max: float
    moved_rms: float
    """rms of the part of the output that the inputs move: golden(x1) - golden(x2), same weights."""
    rms_limit: float
    max_limit: float
    special: torch.Tensor | None = None
    """The reference's output in its own dtype, if it holds NaN or infinities: a candidate must have the same ones."""


@dataclass(frozen=True)
class Case:
    """Inputs, weights and expectations of one workload under one secret seed."""

    workload: Workload
    seed: int
    init_inputs: tuple[Any, ...]
    weights: dict[str, torch.Tensor]
    inputs: tuple[Any, ...]
    expected: list[ExpectedOutput]
    golden_precision: str
    """'fp64', or 'reference dtype' if the reference cannot be run in fp64."""


class _Widen(TorchDispatchMode):
    """Turns every request for a narrower floating dtype into fp64, so that ``x.float()`` inside a reference does not
    spoil the golden."""

    def __torch_dispatch__(
        self, func: Any, types: Sequence[type], args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        kwargs = dict(kwargs or {})
        if kwargs.get("dtype") in _NARROW:
            kwargs["dtype"] = torch.float64
        args = tuple(torch.float64 if isinstance(a, torch.dtype) and a in _NARROW else a for a in args)
        return func(*args, **kwargs)


class Oracle:
    """Makes cases of one problem. Not thread-safe; TF32 is off for everything it runs."""

    def __init__(self, instance: Instance, tolerance: TolerancePolicy) -> None:
        self._instance = instance
        self._tolerance = tolerance

    def case(self, workload: Workload, seed: int, weights_seed: int | None = None) -> Case:
        """Inputs from ``seed`` and weights from ``weights_seed`` (``seed`` if left out), with what must come out.

        Raises InvalidProblem if the reference fails on them.
        """
        weights_seed = seed if weights_seed is None else weights_seed
        instance = self._instance
        weights = instance.make_weights(workload, weights_seed)
        inputs = instance.make_inputs(workload, seed)
        others = instance.make_inputs(workload, seed + 1)
        model = self._model(workload, weights, weights_seed)
        reference = self._run(model, inputs)
        golden, precision = self._golden(model, inputs)
        second, _ = self._golden(model, others)
        expected = [
            self._expect(path, reference[path], golden[path], second.get(path))
            for path in reference
            if isinstance(reference[path], torch.Tensor)
        ]
        init_inputs = instance.init_inputs(weights_seed)
        return Case(workload, seed, init_inputs, weights, inputs, expected, precision)

    def _model(self, workload: Workload, weights: Mapping[str, torch.Tensor], seed: int) -> nn.Module:
        model = self._instance.make_model(seed)
        if workload.dtype is not None:
            model = model.to(getattr(torch, workload.dtype))
        model.load_state_dict(dict(weights))
        return model

    def _run(self, model: nn.Module, inputs: tuple[Any, ...]) -> dict[str, Any]:
        with exact_products(), torch.random.fork_rng():
            torch.manual_seed(0)
            result = self._instance._run("the reference", model, *map_tensors(inputs, torch.Tensor.clone))
        return {path: _detached(leaf) for path, leaf in flatten_outputs(result)}

    def _golden(self, model: nn.Module, inputs: tuple[Any, ...]) -> tuple[dict[str, Any], str]:
        """Outputs in fp64; where the reference refuses, in its own dtype."""
        try:
            wide = copy.deepcopy(model).double()
            with exact_products(), torch.random.fork_rng(), _Widen():
                torch.manual_seed(0)
                result = wide(*map_tensors(inputs, _widened))
            return {path: _detached(leaf) for path, leaf in flatten_outputs(result)}, "fp64"
        except (RuntimeError, NotImplementedError, TypeError, ValueError) as error:
            if isinstance(error, torch.OutOfMemoryError):
                raise InvalidProblem(
                    "the fp64 reference does not fit the memory", path=self._instance.problem.path,
                    fix="make the problem smaller with --scale or --set",
                ) from None  # fmt: skip
            return self._run(model, inputs), "reference dtype"

    def _expect(self, path: str, reference: torch.Tensor, golden: torch.Tensor, second: Any) -> ExpectedOutput:
        shape = tuple(reference.shape)
        if not reference.is_floating_point():
            return ExpectedOutput(path, reference, reference.dtype, shape, 0.0, 0.0, _moved(reference, second), 0.0, 0.0)
        golden = golden.to(torch.float64)
        finite = torch.isfinite(reference) & torch.isfinite(golden)
        special = None if bool(finite.all()) else reference
        good = golden if special is None else torch.where(finite, golden, 0.0)
        error = torch.where(finite, reference.double() - golden, 0.0) if special is not None else reference.double() - good
        policy, eps = self._tolerance, torch.finfo(reference.dtype).eps
        reference_rms, reference_max = rms(error), peak(error)
        moved = _moved(golden, second)
        rms_limit = max(policy.k * reference_rms, policy.floor * eps * rms(good))
        if moved > 0:
            # Never below the error of the reference itself: if that is above the moved part, vetting says so.
            rms_limit = max(min(rms_limit, policy.moved_fraction * moved), reference_rms)
        max_limit = max(policy.k_max * reference_max, policy.floor_max * eps * peak(good))
        return ExpectedOutput(
            path, golden, reference.dtype, shape, reference_rms, reference_max, moved, rms_limit, max_limit, special
        )


class exact_products:
    """Matrix products and convolutions without TF32 while this is entered."""

    def __enter__(self) -> None:
        self._state = (torch.backends.cuda.matmul.allow_tf32, torch.backends.cudnn.allow_tf32)
        torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = False
        self._grad = torch.no_grad()
        self._grad.__enter__()

    def __exit__(self, *details: Any) -> None:
        self._grad.__exit__(*details)
        torch.backends.cuda.matmul.allow_tf32, torch.backends.cudnn.allow_tf32 = self._state


def rms(tensor: torch.Tensor) -> float:
    """Root mean square; 0 for an empty tensor."""
    return float(torch.linalg.vector_norm(tensor) / tensor.numel() ** 0.5) if tensor.numel() else 0.0


def peak(tensor: torch.Tensor) -> float:
    """Largest absolute value; 0 for an empty tensor."""
    return float(tensor.abs().max()) if tensor.numel() else 0.0


def _moved(first: torch.Tensor, second: Any) -> float:
    """rms difference of two outputs over the elements that are finite in both; infinite if they cannot be compared."""
    if not isinstance(second, torch.Tensor) or second.shape != first.shape:
        return float("inf")
    difference = first.double() - second.double()
    return rms(torch.where(torch.isfinite(difference), difference, 0.0))


def _widened(tensor: torch.Tensor) -> torch.Tensor:
    return tensor.double() if tensor.is_floating_point() else tensor.clone()


def _detached(leaf: Any) -> Any:
    return leaf.detach() if isinstance(leaf, torch.Tensor) else leaf


