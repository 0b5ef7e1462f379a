"""Instance: a problem made runnable on a device: its workloads, models, inputs and weights."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from functools import cached_property
from typing import Any

import torch
from pydantic import ValidationError
from torch import nn

from kernelevolve.errors import InvalidProblem
from kernelevolve.problems.execution import Execution, execute, is_out_of_memory
from kernelevolve.problems.outputs import flatten_outputs
from kernelevolve.problems.problem import Problem
from kernelevolve.problems.seeding import seeded
from kernelevolve.problems.values import distribute_inputs, map_tensors
from kernelevolve.problems.weights import distribute_weights
from kernelevolve.problems.workload import Distribution, Role, Workload

_SHIFTED = Distribution(normal=True, scale=2.0, shift=0.5)

DEFAULT_WORKLOADS: tuple[tuple[Workload, ...], ...] = (
    (Workload(name="as-written"),),
    (
        Workload(name="shifted", role=Role.HELD_OUT, distribution=_SHIFTED),
        Workload(name="rescaled", role=Role.HELD_OUT, distribution=Distribution(scale=2.0, shift=0.5)),
    ),
    (
        Workload(
            name="fresh-weights", role=Role.HELD_OUT, distribution=Distribution(normal=True, fresh_statistics=True)
        ),
        Workload(name="fresh-weights", role=Role.HELD_OUT, distribution=Distribution(fresh_statistics=True)),
    ),
    (Workload(name="strided", role=Role.STRESS, contiguous=False),),
    (Workload(name="large", role=Role.STRESS, distribution=Distribution(scale=10.0)),),
)
"""Cases for a file that names none: its own sizes, under values that tell right from wrong.

Of each row the first case is used on which the reference runs and gives finite results: a logarithm of normal draws
does neither, and a reference that calls ``view`` cannot take strided inputs. The first row must work.
"""


class Instance:
    """The functions of a problem file on one device. Everything it makes follows from the seed alone."""

    workloads: tuple[Workload, ...]
    """The cases of ``get_workloads()``, or those of DEFAULT_WORKLOADS that suit the reference."""

    def __init__(self, execution: Execution, device: torch.device) -> None:
        self.problem = execution.problem
        self.device = device
        self.training = bool(execution.get("TRAINING"))
        """True if gradients are judged too; the model is then left in training mode."""
        self.library: Callable[..., Any] | None = execution.get("LIBRARY")
        """``LIBRARY(model, *inputs)``, the baseline that the user named, if there is one."""
        if self.library is not None and not callable(self.library):
            raise execution.invalid(
                "LIBRARY is not a function", "let it take the model and the inputs, and return what forward returns",
                at="LIBRARY",
            )  # fmt: skip
        self.attempt = execution.attempt
        """``attempt(what, call, *args)``: a call of the user's own code; what it raises becomes InvalidProblem."""
        self.invalid = execution.invalid
        self._execution = execution
        declared = self._declared_workloads()
        self.workloads = tuple(row[0] for row in DEFAULT_WORKLOADS) if declared is None else declared
        self.declares_workloads = declared is not None

    def init_inputs(self, seed: int) -> tuple[Any, ...]:
        """Arguments of the constructor."""
        if self._execution.get("get_init_inputs") is None:
            return ()
        with seeded(seed, self.device):
            inputs = self._arguments("get_init_inputs")
        moved: tuple[Any, ...] = map_tensors(inputs, lambda tensor: tensor.to(self.device))
        return moved

    def make_model(self, seed: int) -> nn.Module:
        """A reference model with freshly initialised weights, on the device, in ``eval`` mode unless TRAINING."""
        init_inputs = self.init_inputs(seed)
        constructor = self._execution.get("Model")
        self._check_arguments(constructor, init_inputs, "get_init_inputs", "the constructor of Model")
        with seeded(seed, self.device):
            model: nn.Module = self.attempt("Model cannot be constructed", constructor, *init_inputs)
        return model.to(self.device).train(self.training)

    def make_inputs(self, workload: Workload, seed: int) -> tuple[Any, ...]:
        """Arguments of ``forward``: nested containers of tensors and plain values, made on the device.

        Only floating tensors follow the workload's dtype and distribution. In training they require gradients, because
        a layer is trained inside of others.
        """
        with seeded(seed, self.device):
            inputs = self._arguments("get_inputs", **workload.axes)
            inputs = map_tensors(inputs, lambda tensor: tensor.detach().to(self.device))
            distributed = distribute_inputs(inputs, workload)
        if not self.training:
            return distributed
        asked: tuple[Any, ...] = map_tensors(distributed, lambda t: t.requires_grad_(t.is_floating_point()))
        return asked

    def make_weights(self, workload: Workload, seed: int) -> dict[str, torch.Tensor]:
        """The state dict of ``make_model(seed)`` under the workload's distribution and dtype."""
        model = self.make_model(seed)
        with seeded(seed + 1, self.device):
            return distribute_weights(model, workload)

    def make_reference(self, workload: Workload, seed: int) -> nn.Module:
        """``make_model(seed)`` in the workload's dtype, holding ``make_weights(workload, seed)``."""
        model = self.make_model(seed)
        with seeded(seed + 1, self.device):
            weights = distribute_weights(model, workload)
        if workload.dtype is not None:
            model = model.to(getattr(torch, workload.dtype))
        model.load_state_dict(weights)
        return model

    @cached_property
    def parameter_names(self) -> frozenset[str]:
        """Which names of the state dict are parameters; the others are buffers."""
        return frozenset(name for name, _ in self.make_model(0).named_parameters(remove_duplicate=False))

    def check_reference(self, workload: Workload) -> bool:
        """Run the reference once: True if all its floating results are finite.

        Raises InvalidProblem if its arguments do not fit, it crashes, or its result holds no tensor.
        """
        model = self.make_reference(workload, 0)
        inputs = self.make_inputs(workload, 0)
        self._check_arguments(model.forward, inputs, "get_inputs", "Model.forward")
        case = f"workload {workload.name!r}" + (f" in {workload.dtype}" if workload.dtype is not None else "")
        with torch.set_grad_enabled(self.training), seeded(0, self.device):
            tensors = flatten_outputs(self.attempt(f"the reference fails on its own inputs ({case})", model, *inputs))
        if not tensors:
            raise self.invalid(
                "Model.forward returns no tensor", "return a tensor, or a container that holds one", at="Model"
            )
        return all(bool(torch.isfinite(tensor).all()) for _, tensor in tensors if tensor.is_floating_point())

    def _arguments(self, function: str, **axes: Any) -> tuple[Any, ...]:
        axes |= self._device_type(function)
        values = self.attempt(f"{function}() fails", self._execution.get(function), **axes)
        if not isinstance(values, (list, tuple)):
            raise self.invalid(
                f"{function}() returns {type(values).__name__}, not a list", "return a list of arguments", at=function
            )
        return tuple(values)

    def _device_type(self, function: str) -> dict[str, str]:
        """The keyword ``device_type`` ('cpu' or 'cuda') for a function of the file that asks for it."""
        wanted = "device_type" in inspect.signature(self._execution.get(function)).parameters
        return {"device_type": self.device.type} if wanted else {}

    def _check_arguments(self, call: Callable[..., Any], values: tuple[Any, ...], source: str, taker: str) -> None:
        try:
            signature = inspect.signature(call)
        except (TypeError, ValueError):
            return  # Written in C++: it tells only when it is called.
        try:
            signature.bind(*values)
        except TypeError:
            taken = ", ".join(str(parameter) for parameter in signature.parameters.values())
            raise self.invalid(
                f"{source}() gives {len(values)} arguments, but {taker} takes ({taken})",
                f"return one value for each of them from {source}()",
                at=source if self._execution.get(source) is not None else "Model",
            ) from None

    def _declared_workloads(self) -> tuple[Workload, ...] | None:
        make = self._execution.get("get_workloads")
        if make is None:
            return None
        found = self.attempt("get_workloads() fails", make, **self._device_type("get_workloads"))
        try:
            workloads = tuple(Workload.model_validate(workload) for workload in found)
        except (TypeError, ValidationError):
            raise self.invalid(
                "get_workloads() does not return a list of workloads",
                "return [kernelevolve.Workload(name=…, axes={…}), …]", at="get_workloads",
            ) from None  # fmt: skip
        self._check_workloads(workloads)
        return workloads

    def _check_workloads(self, workloads: tuple[Workload, ...]) -> None:
        names = [workload.name for workload in workloads]
        axes = inspect.signature(self._execution.get("get_inputs")).parameters
        wrong, fix = "", ""
        if repeated := [name for name in names if names.count(name) > 1]:
            wrong, fix = f"two workloads are named {repeated[0]!r}", "give each a name of its own"
        elif all(workload.role is not Role.SEARCH for workload in workloads):
            wrong, fix = "no workload has the role 'search'", "let at least one have it"
        for workload in workloads:
            unknown = sorted(set(workload.axes) - set(axes))
            if unknown and all(p.kind is not p.VAR_KEYWORD for p in axes.values()):
                wrong = f"workload {workload.name!r} has the axis {unknown[0]!r}, which get_inputs() does not take"
                fix = f"use one of: {', '.join(axes) or '(it takes none)'}"
            if workload.dtype is not None and not _is_floating(workload.dtype):
                wrong = f"workload {workload.name!r} has the dtype {workload.dtype!r}"
                fix = "name a floating torch dtype such as 'float16'"
        if wrong:
            raise self.invalid(wrong, fix, at="get_workloads")


def load_instance(problem: Problem, device: str | torch.device, *, check: bool = True) -> Instance:
    """Run a problem's text and make it an Instance on the device.

    With ``check`` the reference is run once on every workload. Raises InvalidProblem, with file, line and fix, if the
    text or the reference does not work; of the default workloads those that do not suit the reference are left out.
    """
    device = torch.device(device)
    execution = execute(problem, device)
    model = execution.get("Model")
    if not (isinstance(model, type) and issubclass(model, nn.Module)):
        raise execution.invalid("Model is not a torch.nn.Module class", "derive it from torch.nn.Module", at="Model")
    if not callable(execution.get("get_inputs")):
        raise execution.invalid("get_inputs is not a function", "let it return the arguments of Model.forward")
    instance = Instance(execution, device)
    if check:
        try:
            instance.workloads = _suitable_workloads(instance)
        except (RuntimeError, MemoryError) as error:
            if is_out_of_memory(error):
                fix = "make it smaller with --scale or --set"
                raise execution.invalid("the reference does not fit the memory", fix, at="Model") from None
            raise
    return instance


def _suitable_workloads(instance: Instance) -> tuple[Workload, ...]:
    if instance.declares_workloads:
        for workload in instance.workloads:
            instance.check_reference(workload)
        return instance.workloads
    (first,), *others = DEFAULT_WORKLOADS
    finite = instance.check_reference(first)
    suitable = [first]
    for row in others:
        suitable += next(([workload] for workload in row if _suits(instance, workload, finite)), [])
    return tuple(suitable)


def _suits(instance: Instance, workload: Workload, finite: bool) -> bool:
    try:
        return instance.check_reference(workload) or not finite
    except InvalidProblem:
        return False


def _is_floating(dtype: str) -> bool:
    found = getattr(torch, dtype, None)
    return isinstance(found, torch.dtype) and found.is_floating_point
