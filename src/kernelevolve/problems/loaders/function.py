"""A module or function with example inputs, written out as a problem file that loads a pickled payload."""

from __future__ import annotations

import inspect
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import cloudpickle
import torch
from torch import nn

from kernelevolve.errors import InvalidProblem
from kernelevolve.hashing import digest_bytes
from kernelevolve.problems.problem import Problem
from kernelevolve.problems.values import map_tensors

_SOURCE = '''"""{title}, captured from a running program."""

from kernelevolve.problems.loaders.function import load_payload, module_class, redraw

MODULE, EXAMPLE_INPUTS = load_payload("{digest}", KERNELEVOLVE_PAYLOAD)
Model = module_class(MODULE)


def get_inputs():
    return redraw(EXAMPLE_INPUTS)


def get_init_inputs():
    return []
'''


def problem_from_module(
    module: nn.Module | Callable[..., Any], example_inputs: Any, *, store_dir: Path, name: str | None
) -> Problem:
    """Pickle the module (by value where it lives in ``__main__``) and the inputs; the problem names them by hash.

    Raises InvalidProblem if the inputs do not fit the callable or something in it cannot be pickled.
    """
    if not callable(module):
        raise InvalidProblem(f"{type(module).__name__} is neither a module nor a function", fix="pass a callable")
    if isinstance(example_inputs, torch.Tensor):
        example_inputs = (example_inputs,)
    if not isinstance(example_inputs, (tuple, list)):
        raise InvalidProblem("example_inputs is not a tuple", fix="pass example_inputs=(x, y, …)")
    inputs = tuple(map_tensors(tuple(example_inputs), lambda t: t.detach().cpu()))
    title = name or getattr(module, "__name__", type(module).__name__)
    try:
        inspect.signature(module.forward if isinstance(module, nn.Module) else module).bind(*inputs)
    except TypeError as error:
        raise InvalidProblem(f"example_inputs do not fit {title}: {error}", fix="pass one value per argument") from None
    wrapped = module if isinstance(module, nn.Module) else FunctionModule(module)
    try:
        data = cloudpickle.dumps((wrapped.cpu(), inputs))
    except (pickle.PicklingError, TypeError, AttributeError) as error:
        raise InvalidProblem(
            f"{title} cannot be pickled: {str(error).splitlines()[0]}", fix="write it as a problem file instead"
        ) from None
    digest = digest_bytes(data)
    store_dir.mkdir(parents=True, exist_ok=True)
    path = store_dir / f"{digest}.pkl"
    path.write_bytes(data)
    return Problem(name=title, source=_SOURCE.format(title=title, digest=digest), payload={digest: path})


class FunctionModule(nn.Module):
    """A plain function as a module without weights."""

    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__()
        self.function = function

    def forward(self, *args: Any) -> Any:
        return self.function(*args)


def load_payload(digest: str, payload: dict[str, str]) -> tuple[nn.Module, tuple[Any, ...]]:
    """The pickled module and inputs; InvalidProblem if the file is gone or is not the one that was written."""
    path = Path(payload[digest])
    try:
        data = path.read_bytes()
    except OSError:
        raise InvalidProblem("the captured module is gone", path=path, fix="capture it again") from None
    if digest_bytes(data) != digest:
        raise InvalidProblem("the captured module was changed", path=path, fix="capture it again")
    loaded: tuple[nn.Module, tuple[Any, ...]] = pickle.loads(data)
    return loaded


def module_class(module: nn.Module) -> type[nn.Module]:
    """A class whose instances are copies of ``module``: what a problem file calls Model."""

    class Model(type(module)):  # type: ignore[misc]
        def __init__(self) -> None:
            nn.Module.__init__(self)
            copy = pickle.loads(cloudpickle.dumps(module))
            self.__dict__.update(copy.__dict__)

    return Model


def redraw(inputs: tuple[Any, ...]) -> list[Any]:
    """Example inputs with fresh values: normal with the example's mean and deviation, or the example's own integers
    in another order, which keeps indices in range."""

    def fresh(tensor: torch.Tensor) -> torch.Tensor:
        tensor = tensor.to(torch.get_default_device())
        if tensor.is_floating_point():
            wide = tensor.float()
            deviation = wide.std() if wide.numel() > 1 else wide.new_tensor(1.0)
            return (torch.randn_like(wide) * deviation + (wide.mean() if wide.numel() else 0.0)).to(tensor.dtype)
        flat = tensor.reshape(-1)
        # Sorted integers are offsets or lengths more often than data, and another order would break them.
        if flat.numel() < 2 or tensor.dtype is torch.bool or bool((flat[1:] >= flat[:-1]).all()):
            return tensor.clone()
        return flat[torch.randperm(flat.numel())].reshape(tensor.shape)

    return list(map_tensors(inputs, fresh))
