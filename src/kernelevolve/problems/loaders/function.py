"""A module or function with example inputs, written out as a problem whose text loads them from a payload file."""

from __future__ import annotations

import copy
import inspect
import io
import sys
import sysconfig
import textwrap
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import cloudpickle
import torch
from torch import nn

from kernelevolve.errors import InvalidProblem
from kernelevolve.hashing import digest_bytes
from kernelevolve.problems.outputs import named_leaves
from kernelevolve.problems.payload import FunctionModule, Payload, rebuild_tensor
from kernelevolve.problems.problem import Problem
from kernelevolve.problems.values import map_tensors

_SOURCE = '''"""{title}: captured from a running program together with example inputs."""

from kernelevolve.problems.payload import load_payload, model_class, redraw

PAYLOAD = load_payload("{digest}", KERNELEVOLVE_PAYLOAD)
Model = model_class(PAYLOAD)


def get_inputs():
    return redraw(PAYLOAD.inputs)


def get_init_inputs():
    return []


# Inputs: {inputs}
# What was captured, as it is written:
{original}
'''


def problem_from_module(
    module_or_function: nn.Module | Callable[..., Any],
    example_inputs: Any,
    example_kwargs: Mapping[str, Any],
    *,
    store_dir: Path,
    name: str | None,
) -> Problem:
    """Pickle the module and its inputs to ``store_dir/<sha256>.pkl`` and write a text that loads them.

    The caller's module is left as it is. Raises InvalidProblem if the inputs do not fit the callable, or if something
    in it cannot be pickled.
    """
    if not callable(module_or_function):
        raise InvalidProblem(
            f"a {type(module_or_function).__name__} is neither a module nor a function", fix="pass a callable"
        )
    title: str = name or getattr(module_or_function, "__name__", "") or type(module_or_function).__name__
    positional = _positional(example_inputs)
    call = module_or_function.forward if isinstance(module_or_function, nn.Module) else module_or_function
    _check_arguments(title, call, positional, example_kwargs)
    inputs = map_tensors((*positional, *example_kwargs.values()), lambda tensor: tensor.detach().cpu())
    if isinstance(module_or_function, nn.Module):
        module = copy.deepcopy(module_or_function).cpu()
    else:
        module = FunctionModule(module_or_function)
    try:
        with _own_code_by_value(module_or_function):
            data = _pickled(Payload(module, inputs, tuple(example_kwargs)))
    except Exception as error:
        reason = f"{type(error).__name__}: {error}".splitlines()[0]
        raise InvalidProblem(f"{title} cannot be pickled: {reason}", fix="write it as a problem file instead") from None
    digest = digest_bytes(data)
    path = store_dir / f"{digest}.pkl"
    store_dir.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)
    text = _SOURCE.format(
        title=title, digest=digest, inputs=_described(inputs), original=_original(module_or_function, call)
    )
    return Problem(name=title, source=text, payload={digest: path})


class _Pickler(cloudpickle.Pickler):  # type: ignore[misc]
    """Writes equal tensors as equal bytes; torch's own way puts the addresses of their memory into the pickle."""

    def reducer_override(self, value: Any) -> Any:
        if type(value) in (torch.Tensor, nn.Parameter) and value.layout is torch.strided and not value.is_quantized:
            flat = value.detach().contiguous().reshape(-1).view(torch.uint8)
            extra = (value.requires_grad,) if isinstance(value, nn.Parameter) else ()
            return rebuild_tensor, (flat.numpy().tobytes(), value.dtype, tuple(value.shape), value.stride(), *extra)
        return super().reducer_override(value)


def _pickled(payload: Payload) -> bytes:
    stream = io.BytesIO()
    _Pickler(stream).dump(payload)
    return stream.getvalue()


def _positional(example_inputs: Any) -> tuple[Any, ...]:
    if isinstance(example_inputs, torch.Tensor):
        return (example_inputs,)
    if isinstance(example_inputs, (tuple, list)):
        return tuple(example_inputs)
    raise InvalidProblem(
        f"example_inputs is a {type(example_inputs).__name__}, not a tuple of arguments",
        fix="pass example_inputs=(x, y, …), and keyword arguments as example_kwargs={…}",
    )


def _check_arguments(title: str, call: Callable[..., Any], args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> None:
    try:
        signature = inspect.signature(call)
    except (TypeError, ValueError):
        return  # Written in C++: it tells only when it is called.
    try:
        signature.bind(*args, **kwargs)
    except TypeError as error:
        raise InvalidProblem(
            f"example_inputs do not fit {title}{signature}: {error}", fix="pass one value for each argument"
        ) from None


@contextmanager
def _own_code_by_value(module_or_function: Any) -> Iterator[None]:
    """Pickle code that is not installed by value, so that the payload holds it and its hash changes with the code."""
    parts = module_or_function.modules() if isinstance(module_or_function, nn.Module) else [module_or_function]
    names = {getattr(part, "__module__", None) or type(part).__module__ for part in parts}
    packages = {str(name).partition(".")[0] for name in names} - {"__main__", "kernelevolve"}
    own = [sys.modules[package] for package in sorted(packages & set(sys.modules)) if not _is_installed(package)]
    already = cloudpickle.list_registry_pickle_by_value()
    own = [module for module in own if module.__name__ not in already]
    for module in own:
        cloudpickle.register_pickle_by_value(module)
    try:
        yield
    finally:
        for module in own:
            cloudpickle.unregister_pickle_by_value(module)


def _is_installed(package: str) -> bool:
    file = getattr(sys.modules[package], "__file__", None)
    if file is None:
        return True  # Built in, or a namespace.
    return any(Path(file).is_relative_to(sysconfig.get_path(place)) for place in ("stdlib", "purelib", "platlib"))


def _described(inputs: tuple[Any, ...]) -> str:
    """Shapes and dtypes of the inputs by path, for the reader of the text."""

    def describe(leaf: Any) -> str:
        if isinstance(leaf, torch.Tensor):
            return f"{str(leaf.dtype).removeprefix('torch.')}{list(leaf.shape)}"
        return " ".join(repr(leaf).split())[:40]

    return ", ".join(f"{path}: {describe(leaf)}" for path, leaf in named_leaves(inputs))


def _original(module_or_function: Any, call: Callable[..., Any]) -> str:
    """The source of what was captured as comment lines, so that people and operators can read what it computes."""
    subject = type(module_or_function) if isinstance(module_or_function, nn.Module) else call
    try:
        text = textwrap.dedent(inspect.getsource(subject))
    except (OSError, TypeError):
        text = repr(module_or_function)
    return "\n".join(f"# {line}".rstrip() for line in text.splitlines())
