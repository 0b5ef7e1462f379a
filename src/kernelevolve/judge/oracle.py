"""Oracle: what a workload's outputs must be, and how far from that a candidate may be. Lives in the judge's process."""

from __future__ import annotations

import copy
import math
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field, replace
from typing import Any

import torch
from torch import nn
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_map

from kernelevolve.judge import integrity
from kernelevolve.problems import TolerancePolicy, Workload
from kernelevolve.problems.instance import Instance
from kernelevolve.problems.outputs import flatten_outputs
from kernelevolve.problems.seeding import seeded
from kernelevolve.problems.values import map_tensors
from kernelevolve.workers.layout import leaves

Outputs = dict[str, torch.Tensor]

_WIDE = {
    torch.float32: torch.float64, torch.float16: torch.float64, torch.bfloat16: torch.float64,
    torch.complex64: torch.complex128, torch.complex32: torch.complex128,
}  # fmt: skip
"""Formats that carry values. The eight-bit ones are left alone: a cast to one of them is the task itself."""
_TERMS_AT_NO_COST = 8.0
"""Root of the number of terms up to which the floors of the policy allow for any order of a sum. The rms error of one
that is formed in order grows with the root of its length (Higham, SIAM J. Sci. Comput. 14(4), 1993, section 3), and
8192 atomic additions are honest fp32 arithmetic though the reference sums in a tree."""
_REORDERED = 2.0
"""Times the reference's own rms error that an honest program may have because it sums in another order."""


@dataclass(frozen=True)
class ExpectedOutput:
    """One output of the reference on one case, and the limits on a candidate's error (in the output's own units)."""

    path: str
    golden: torch.Tensor
    """fp64 (or complex128) for floating outputs, the exact values for integers and bools; on the device."""
    dtype: torch.dtype
    """Of the reference's own output."""
    shape: tuple[int, ...]
    reference_rms: float
    """Error of the reference itself in its stated dtype against the golden; elements that are not finite left out."""
    reference_max: float
    moved_rms: float
    """rms of the part of the output that the inputs move: golden(x1) - golden(x2), same weights."""
    rms_limit: float
    max_limit: float
    special: torch.Tensor | None = None
    """The reference's output in its own dtype if it holds NaN or infinities: a candidate must have the same ones."""


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
    """'fp64', or 'reference dtype' if the reference cannot be run in more than its own precision."""
    left: Mapping[str, torch.Tensor] = field(default_factory=dict)
    """What the reference leaves in the inputs that it writes to, by path."""
    cotangents: Mapping[str, torch.Tensor] = field(default_factory=dict)
    """In training: what the gradient of each floating output is taken to be, at random."""
    gradients: Sequence[ExpectedOutput] = ()
    """In training: the gradients of the floating inputs and of the parameters that follow from it."""


OF_INPUT, OF_PARAMETER = "gradient of input ", "gradient of parameter "
"""How the paths of gradients begin."""


class Reference:
    """The reference of one workload with the weights of one seed. TF32 is off for everything that it runs.

    Every call works on a copy of the module and of its inputs, with the generators seeded alike, so that references
    which keep state, work in place or draw random numbers give the same answer to the same question.
    """

    def __init__(self, instance: Instance, workload: Workload, seed: int) -> None:
        self._instance = instance
        self._workload = workload
        self._model = instance.make_reference(workload, seed)

    @property
    def weights(self) -> dict[str, torch.Tensor]:
        """A copy of the state dict."""
        return {name: value.detach().clone() for name, value in self._model.state_dict().items()}

    def outputs(self, inputs: tuple[Any, ...]) -> Outputs:
        """Outputs in the stated dtype by path. Raises InvalidProblem if the reference fails on these inputs."""
        return self._attempt(copy.deepcopy(self._model), inputs, 0)

    def left(self, inputs: tuple[Any, ...]) -> dict[str, torch.Tensor]:
        """What a call leaves in those inputs that it writes to, by path."""
        copies = map_tensors(inputs, _copied)
        self._call(copy.deepcopy(self._model), copies, 0)
        changed = integrity.changed_inputs(inputs, copies, frozenset())
        return {path: leaf.detach() for path, leaf in leaves(copies) if path in changed}

    def second_call(self, inputs: tuple[Any, ...]) -> Outputs:
        """Outputs of the second call of one and the same module, with other random numbers than any first call's.

        They differ from ``outputs`` if the reference draws random numbers or keeps something from call to call.
        """
        model = copy.deepcopy(self._model)
        self._attempt(model, inputs, 1)
        return self._attempt(model, inputs, 2)

    def golden(self, inputs: tuple[Any, ...]) -> Outputs | None:
        """Outputs in fp64 by path, or None if the reference refuses to run in fp64.

        Raises InvalidProblem if fp64 does not fit the memory.
        """
        try:
            wide = copy.deepcopy(self._model).double()
            with _Widen():  # type: ignore[no-untyped-call]
                return self._call(wide, map_tensors(inputs, _widened), 0)
        except (torch.OutOfMemoryError, MemoryError):
            raise self._instance.invalid(
                f"the reference does not fit the memory in fp64 (workload {self._workload.name!r})",
                "make the problem smaller with --scale or --set",
            ) from None
        except Exception:
            return None

    def gradients(
        self, inputs: tuple[Any, ...], cotangents: Mapping[str, torch.Tensor], *, wide: bool = False
    ) -> Outputs:
        """Gradients of inputs and parameters by path, in the stated dtype or in fp64; zeros where there is none.

        Raises InvalidProblem if the reference cannot be differentiated.
        """
        model = copy.deepcopy(self._model)
        model, copies = (
            (model.double(), map_tensors(inputs, _widened)) if wide else (model, map_tensors(inputs, _copied))
        )
        what = f"the gradients of the reference fail on workload {self._workload.name!r}"
        with _Widen() if wide else nullcontext():  # type: ignore[no-untyped-call]
            found: Outputs = self._instance.attempt(what, self._differentiate, model, copies, cotangents)
        return found

    def _differentiate(
        self, model: nn.Module, inputs: tuple[Any, ...], cotangents: Mapping[str, torch.Tensor]
    ) -> Outputs:
        wanted = {
            OF_INPUT + path: leaf
            for path, leaf in leaves(inputs)
            if isinstance(leaf, torch.Tensor) and leaf.requires_grad
        }
        wanted |= {OF_PARAMETER + name: p for name, p in model.named_parameters(remove_duplicate=False)}
        with exact_products(), seeded(0, self._instance.device), torch.enable_grad():
            outputs = {p: t for p, t in flatten_outputs(model(*inputs)) if p in cotangents and t.requires_grad}
            found = torch.autograd.grad(
                list(outputs.values()), list(wanted.values()), [cotangents[p].to(t.dtype) for p, t in outputs.items()],
                allow_unused=True,
            )  # fmt: skip
        pairs = zip(wanted.items(), found, strict=True)
        return {path: torch.zeros_like(leaf) if g is None else g for (path, leaf), g in pairs}

    def _attempt(self, model: nn.Module, inputs: tuple[Any, ...], random_seed: int) -> Outputs:
        what = f"the reference fails on workload {self._workload.name!r}"
        found: Outputs = self._instance.attempt(what, self._call, model, map_tensors(inputs, _copied), random_seed)
        return found

    def _call(self, model: nn.Module, inputs: tuple[Any, ...], random_seed: int) -> Outputs:
        instance = self._instance
        with exact_products(), seeded(random_seed, instance.device), torch.set_grad_enabled(instance.training):
            result = model(*inputs)
        return {path: leaf.detach() for path, leaf in flatten_outputs(result)}


class Oracle:
    """Makes cases of one problem. Not thread-safe: it sets PyTorch's global precision flags while it works."""

    def __init__(self, instance: Instance, tolerance: TolerancePolicy) -> None:
        self._instance = instance
        self._tolerance = tolerance

    def case(self, workload: Workload, seed: int, weights_seed: int | None = None) -> Case:
        """Inputs from ``seed`` and weights from ``weights_seed`` (``seed`` if left out), with what must come out.

        Raises InvalidProblem if the reference fails on them.
        """
        weights_seed = seed if weights_seed is None else weights_seed
        inputs = self._instance.make_inputs(workload, seed)
        return self.case_of(workload, inputs, self._instance.make_inputs(workload, seed + 1), seed, weights_seed)

    def case_of(
        self, workload: Workload, inputs: tuple[Any, ...], others: tuple[Any, ...], seed: int, weights_seed: int
    ) -> Case:
        """What must come out for these inputs; ``others`` show which part of it the inputs move.

        Raises InvalidProblem if the reference fails on them.
        """
        reference = Reference(self._instance, workload, weights_seed)
        own = reference.outputs(inputs)
        golden, second = reference.golden(inputs), reference.golden(others)
        if golden is not None and second is not None and _is_finer(golden, own):
            precision = "fp64"
            errors = {path: own[path].to(golden[path].dtype).sub_(golden[path]) for path in own if _is_float(own[path])}
        else:
            precision = "reference dtype"
            golden = {path: leaf.to(_finest(leaf)) if _is_float(leaf) else leaf for path, leaf in own.items()}
            second, nudged = reference.outputs(others), reference.outputs(map_tensors(inputs, _nudged))
            errors = {path: nudged[path].to(_finest(own[path])) - golden[path] for path in own if _is_float(own[path])}
        size = _largest(inputs)
        expected = [
            self._expect_float(path, leaf, golden[path], errors.pop(path), second.get(path), size)
            if _is_float(leaf)
            else ExpectedOutput(
                path, leaf, leaf.dtype, tuple(leaf.shape), 0.0, 0.0, _moved(leaf, second.get(path)), 0.0, 0.0
            )
            for path, leaf in own.items()
        ]
        case = Case(
            workload=workload, seed=seed, init_inputs=self._instance.init_inputs(weights_seed),
            weights=reference.weights, inputs=inputs, expected=expected, golden_precision=precision,
            left=reference.left(inputs),
        )  # fmt: skip
        return self._with_gradients(case, reference, own, others) if self._instance.training else case

    def _with_gradients(self, case: Case, reference: Reference, own: Outputs, others: tuple[Any, ...]) -> Case:
        with seeded(case.seed + 2, self._instance.device):
            cotangents = {path: torch.randn_like(leaf) for path, leaf in own.items() if _is_float(leaf)}
        mine, exact = (reference.gradients(case.inputs, cotangents, wide=wide) for wide in (False, True))
        second = reference.gradients(others, cotangents, wide=True) if _same_shapes(case.inputs, others) else {}
        size = max(_largest(case.inputs), *(leaf.numel() for leaf in cotangents.values()))
        gradients = [
            self._expect_float(path, leaf, exact[path], leaf.double() - exact[path], second.get(path), size)
            for path, leaf in mine.items()
        ]
        return replace(case, cotangents=cotangents, gradients=gradients)

    def _expect_float(
        self,
        path: str,
        own: torch.Tensor,
        golden: torch.Tensor,
        error: torch.Tensor,
        second: torch.Tensor | None,
        size: int,
    ) -> ExpectedOutput:
        """Limits by the tolerance policy, with the machine epsilon of fp32 for the narrower formats.

        A 16-bit kernel accumulates in fp32, so its output rounds once, as the reference's does; 4 units in the last
        place of bfloat16 would be 3 %. Where an input of ``size`` elements is reduced to fewer, the floors grow with
        the root of their ratio, as the error of a sum does that is formed in order.
        The limit from the moved part is never drawn tighter than what another order of the same sums needs: where the
        moved part drowns in rounding, no limit separates right from wrong, and vetting says so.
        """
        special, magnitude = None, golden
        if not math.isfinite(rms(error)):  # An element that is not finite shows in the norm, and a norm is cheap.
            finite = torch.isfinite(own)
            special = None if bool(finite.all()) else own
            # What overflows in fp64 alone is judged by the reference.
            golden = torch.where(finite & ~torch.isfinite(golden), own.to(golden.dtype), golden)
            error = torch.where(torch.isfinite(error), error, 0.0)
            magnitude = torch.where(finite & torch.isfinite(golden), golden, 0.0)
        policy, eps = self._tolerance, min(torch.finfo(own.dtype).eps, torch.finfo(torch.float32).eps)
        reference_rms, reference_max, moved = rms(error), peak(error), _moved(golden, second)
        eps *= max(1.0, math.sqrt(size / max(1, own.numel())) / _TERMS_AT_NO_COST)
        rms_limit = max(policy.k * reference_rms, policy.floor * eps * rms(magnitude))
        if moved > 0:
            rms_limit = min(rms_limit, max(policy.moved_fraction * moved, _REORDERED * reference_rms))
        max_limit = max(policy.k_max * reference_max, policy.floor_max * eps * peak(magnitude))
        return ExpectedOutput(
            path=path, golden=golden, dtype=own.dtype, shape=tuple(own.shape), reference_rms=reference_rms,
            reference_max=reference_max, moved_rms=moved, rms_limit=rms_limit, max_limit=max_limit, special=special,
        )  # fmt: skip


class _Widen(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Computes in fp64 whatever a reference asks to be computed in a narrower format.

    ``x.float()`` inside a reference, and tensors that it keeps outside its parameters, must not spoil the golden.
    """

    def __torch_dispatch__(
        self, func: Any, types: Sequence[type], args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        tensors = 0

        def widen(value: Any) -> Any:
            nonlocal tensors
            if isinstance(value, torch.dtype):
                return _WIDE.get(value, value)
            if not isinstance(value, torch.Tensor):
                return value
            tensors += 1
            # An operator that writes to its arguments must see them themselves.
            return value if func._schema.is_mutable else value.to(_WIDE.get(value.dtype, value.dtype))

        args, kwargs = tree_map(widen, args), tree_map(widen, kwargs or {})
        result = func(*args, **kwargs)
        made = isinstance(result, torch.Tensor) and not tensors and result.dtype in _WIDE
        if made and any(argument.name == "dtype" for argument in func._schema.arguments):
            return func(*args, **{**kwargs, "dtype": _WIDE[result.dtype]})
        return result


@contextmanager
def exact_products() -> Iterator[None]:
    """Matrix products and convolutions in full fp32, without TF32, while this is entered."""
    products, convolutions = torch.get_float32_matmul_precision(), torch.backends.cudnn.allow_tf32
    torch.set_float32_matmul_precision("highest")
    torch.backends.cudnn.allow_tf32 = False
    try:
        yield
    finally:
        torch.set_float32_matmul_precision(products)
        torch.backends.cudnn.allow_tf32 = convolutions


def rms(tensor: torch.Tensor) -> float:
    """Root mean square; 0 for an empty tensor."""
    return float(torch.linalg.vector_norm(tensor) / tensor.numel() ** 0.5) if tensor.numel() else 0.0


def peak(tensor: torch.Tensor) -> float:
    """Largest absolute value; 0 for an empty tensor."""
    if not tensor.numel():
        return 0.0
    low, high = torch.aminmax(tensor.abs() if tensor.is_complex() else tensor)
    return max(abs(float(low)), abs(float(high)))


def _moved(first: torch.Tensor, second: torch.Tensor | None) -> float:
    """rms difference of two outputs over the elements that are finite in both; infinite if their shapes differ."""
    if second is None or second.shape != first.shape:
        return math.inf
    difference = first.to(_finest(first)) - second.to(_finest(first))
    moved = rms(difference)
    return moved if math.isfinite(moved) else rms(torch.where(torch.isfinite(difference), difference, 0.0))


def _is_finer(golden: Outputs, own: Outputs) -> bool:
    """True if a golden has the outputs of the reference, in a wider dtype where those are floating."""
    return own.keys() == golden.keys() and all(
        golden[path].shape == leaf.shape
        and (not _is_float(leaf) or (_is_float(golden[path]) and golden[path].itemsize > leaf.itemsize))
        for path, leaf in own.items()
    )


def _largest(inputs: tuple[Any, ...]) -> int:
    """Elements of the largest floating input."""
    return max(
        (leaf.numel() for _, leaf in leaves(inputs) if isinstance(leaf, torch.Tensor) and _is_float(leaf)), default=0
    )


def _same_shapes(a: tuple[Any, ...], b: tuple[Any, ...]) -> bool:
    shapes = ([leaf.shape for _, leaf in leaves(tree) if isinstance(leaf, torch.Tensor)] for tree in (a, b))
    return next(shapes) == next(shapes)


def _is_float(tensor: torch.Tensor) -> bool:
    return tensor.is_floating_point() or tensor.is_complex()


def _finest(tensor: torch.Tensor) -> torch.dtype:
    """The widest dtype of the tensor's kind of numbers."""
    return torch.complex128 if tensor.is_complex() else torch.float64


def _copied(tensor: torch.Tensor) -> torch.Tensor:
    """Same values, strides and need of a gradient, in memory of its own."""
    return tensor.detach().clone().requires_grad_(tensor.requires_grad)


def _widened(tensor: torch.Tensor) -> torch.Tensor:
    wide = tensor.detach().to(_WIDE.get(tensor.dtype, tensor.dtype), copy=True)
    return wide.requires_grad_(tensor.requires_grad)


def _nudged(tensor: torch.Tensor) -> torch.Tensor:
    """The values moved by up to half a unit in the last place, at random: what rounding does to them anyway.

    Where there is no finer golden, the change that this makes in the output stands for the reference's own error.
    """
    if not _is_float(tensor):
        return tensor.clone()
    noise = torch.rand(tensor.shape, device=tensor.device, dtype=torch.float32) - 0.5
    nudged = tensor.detach() * (1 + torch.finfo(tensor.dtype).eps * noise.double())
    return nudged.to(tensor.dtype).requires_grad_(tensor.requires_grad)
