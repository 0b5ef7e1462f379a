"""Instance: a problem's text made runnable on a device. The text is the user's own and is trusted."""

from __future__ import annotations

import inspect
import itertools
import linecache
import sys
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cached_property
from types import ModuleType
from typing import Any

import torch
from torch import nn

from kernelevolve.errors import InvalidProblem
from kernelevolve.problems.outputs import flatten_outputs
from kernelevolve.problems.problem import Problem
from kernelevolve.problems.source import effective_source
from kernelevolve.problems.values import map_tensors, transform_inputs, transform_weights
from kernelevolve.problems.workload import Distribution, Role, Workload

_counter = itertools.count()

DEFAULT_WORKLOADS = (
    Workload(name="as-written"),
    Workload(name="shifted", role=Role.HELD_OUT, distribution=Distribution(normal=True, scale=2.0, shift=0.5)),
    Workload(name="fresh-weights", role=Role.HELD_OUT, distribution=Distribution(normal=True, fresh_statistics=True)),
    Workload(name="strided", role=Role.STRESS, contiguous=False),
    Workload(name="large", role=Role.STRESS, distribution=Distribution(scale=10.0)),
)
"""Cases for a file that names none: the file's own sizes, with values that tell right from wrong."""


@contextmanager
def seeded(seed: int, device: torch.device) -> Iterator[None]:
    """Random numbers from this seed, tensors made on this device; the generators are put back afterwards."""
    devices = [torch.cuda.current_device()] if device.type == "cuda" else []
    with torch.random.fork_rng(devices=devices), device:
        torch.manual_seed(seed)
        yield


class Instance:
    """The functions of a problem file, run on one device."""

    def __init__(self, problem: Problem, device: torch.device, module: ModuleType) -> None:
        self.problem = problem
        self.device = device
        self._module = module
        self.training = bool(getattr(module, "TRAINING", False))

    @cached_property
    def workloads(self) -> tuple[Workload, ...]:
        """The cases of ``get_workloads`` for this kind of device, or ``DEFAULT_WORKLOADS``."""
        make = getattr(self._module, "get_workloads", None)
        if make is None:
            return DEFAULT_WORKLOADS
        takes_device = bool(inspect.signature(make).parameters)
        found = tuple(self._run("get_workloads", make, *((self.device.type,) if takes_device else ())))
        if not all(isinstance(w, Workload) for w in found) or not any(w.role is Role.SEARCH for w in found):
            raise self._invalid(
                "get_workloads() does not return Workloads with at least one of role 'search'",
                "return a list of kernelevolve.Workload",
            )
        return found

    @property
    def search_workloads(self) -> tuple[Workload, ...]:
        """The cases on which every candidate is checked and timed."""
        return tuple(w for w in self.workloads if w.role is Role.SEARCH)

    def init_inputs(self, seed: int) -> tuple[Any, ...]:
        """Arguments of the constructor."""
        make = getattr(self._module, "get_init_inputs", None)
        if make is None:
            return ()
        with seeded(seed, self.device):
            values = self._run("get_init_inputs", make)
        return self._as_arguments("get_init_inputs", values)

    def make_model(self, seed: int) -> nn.Module:
        """A reference model with freshly initialised weights, on the device, in ``eval`` mode unless TRAINING."""
        init_inputs = self.init_inputs(seed)
        with seeded(seed, self.device):
            model: nn.Module = self._run("Model", self._module.Model, *init_inputs)
        return model.to(self.device).train(self.training)

    def make_inputs(self, workload: Workload, seed: int) -> tuple[Any, ...]:
        """Arguments of ``forward`` for a workload, made on the device."""
        with seeded(seed, self.device):
            values = self._run("get_inputs", self._module.get_inputs, **workload.axes)
            inputs = self._as_arguments("get_inputs", values)
            inputs = map_tensors(inputs, lambda t: t.to(self.device))
            return transform_inputs(inputs, workload)

    def make_weights(self, workload: Workload, seed: int) -> dict[str, torch.Tensor]:
        """A state dict of the reference under the workload's distribution and dtype."""
        state = {name: value.detach() for name, value in self.make_model(seed).state_dict().items()}
        with seeded(seed + 1, self.device):
            return transform_weights(state, workload)

    @cached_property
    def parameter_names(self) -> frozenset[str]:
        """Which names of the state dict are parameters; the others are buffers."""
        return frozenset(name for name, _ in self.make_model(0).named_parameters(remove_duplicate=False))

    def _run(self, what: str, call: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        try:
            return call(*args, **kwargs)
        except Exception as error:
            raise self._blame(f"{what} fails", error) from None

    def _as_arguments(self, what: str, values: Any) -> tuple[Any, ...]:
        if not isinstance(values, (list, tuple)):
            raise self._invalid(
                f"{what}() returns {type(values).__name__}, not a list", f"return [{'x, y, …'}] from {what}()"
            )
        return tuple(values)

    def _line_of(self, name: str) -> int | None:
        try:
            return inspect.getsourcelines(getattr(self._module, name))[1]
        except (OSError, TypeError, AttributeError):
            return None

    def _invalid(self, sentence: str, fix: str, line: int | None = None) -> InvalidProblem:
        return InvalidProblem(sentence, path=self.problem.path or self.problem.name, line=line, fix=fix)

    def _blame(self, what: str, error: Exception) -> InvalidProblem:
        """The user's own line at which an exception arose, and its message."""
        return blame(self.problem, self._module.__file__ or "", what, error)

    def check_reference(self) -> None:
        """Run the reference once on its first search workload.

        Raises InvalidProblem if its arguments do not fit, it crashes, or its result holds no tensor.
        """
        workload = self.search_workloads[0]
        model = self.make_model(0)
        inputs = self.make_inputs(workload, 0)
        try:
            inspect.signature(model.forward).bind(*inputs)
        except TypeError as error:
            raise self._invalid(
                f"get_inputs() gives {len(inputs)} values, which do not fit Model.forward: {error}",
                "return one value for each argument of forward",
                self._line_of("get_inputs"),
            ) from None
        if workload.dtype is not None:
            model = model.to(getattr(torch, workload.dtype))
        with torch.set_grad_enabled(self.training):
            outputs = self._run("the reference", model, *inputs)
        if not any(isinstance(leaf, torch.Tensor) for _, leaf in flatten_outputs(outputs)):
            raise self._invalid(
                "Model.forward returns no tensor", "return a tensor or a container of tensors", self._line_of("Model")
            )


def blame(problem: Problem, file: str, what: str, error: Exception) -> InvalidProblem:
    """InvalidProblem for an exception out of a problem's text, with the last of the text's own lines on the stack."""
    frames = [f for f in traceback.extract_tb(error.__traceback__) if f.filename == file]
    line = frames[-1].lineno if frames else getattr(error, "lineno", None)
    message = (str(error) or "no message").splitlines()[0][:300]
    return InvalidProblem(
        f"{what}: {type(error).__name__}: {message}",
        path=problem.path or problem.name,
        line=line,
        fix=_fix_for(error),
    )


def _fix_for(error: Exception) -> str:
    if isinstance(error, ModuleNotFoundError):
        return f"install {error.name} or remove the import"
    if isinstance(error, torch.OutOfMemoryError) or "not enough memory" in str(error) or isinstance(error, MemoryError):
        return "make the problem smaller with --scale or --set"
    return "correct the line, or the inputs that reach it"


def load_instance(problem: Problem, device: str | torch.device) -> Instance:
    """Run a problem's text and check that it has what a problem needs.

    Raises InvalidProblem with file, line and fix.
    """
    device = torch.device(device)
    name = f"kernelevolve_problem_{problem.digest[:12]}_{next(_counter)}"
    file = str(problem.path) if problem.path is not None else f"<problem {problem.name}>"
    source = effective_source(problem)
    # A name of its own in sys.modules: torch.compile and pickling look modules up there.
    module = ModuleType(name)
    module.__file__ = file
    linecache.cache[file] = (len(source), None, source.splitlines(keepends=True), file)
    sys.modules[name] = module
    module.__dict__["KERNELEVOLVE_PAYLOAD"] = {digest: str(path) for digest, path in problem.payload.items()}
    try:
        with device if device.type != "meta" else torch.device("cpu"):
            exec(compile(source, file, "exec"), module.__dict__)
    except Exception as error:
        raise blame(problem, file, "the problem cannot be imported", error) from None
    model = getattr(module, "Model", None)
    place = problem.path or problem.name
    if not (isinstance(model, type) and issubclass(model, nn.Module)):
        raise InvalidProblem(
            "there is no class Model(torch.nn.Module)", path=place, fix="define the reference as Model"
        )
    if not callable(getattr(module, "get_inputs", None)):
        raise InvalidProblem("there is no function get_inputs()", path=place, fix="return the arguments of forward there")
    return Instance(problem, device, module)
