"""Programs inside a worker: from text to something that can be called with weights in place."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Protocol

import torch
from torch import nn

from kernelevolve.workers.messages import CandidateProgram, Program, ReferenceProgram

CANDIDATE_FILE = "candidate.py"
ENTRY = "ModelNew"


class InterfaceError(Exception):
    """The program lacks what every candidate must have, or does not fit the weights it is given."""


@dataclass(frozen=True, slots=True)
class Instance:
    """A constructed program, ready to be called."""

    call: Callable[..., Any]
    module: nn.Module
    training: bool
    repacked: bool


class LoadedProgram(Protocol):
    """A program whose module has been imported."""

    def construct(
        self,
        init_inputs: tuple[Any, ...],
        weights: Mapping[str, torch.Tensor],
        parameters: frozenset[str],
        device: torch.device,
        training: bool,
    ) -> Instance:
        """One instance with these weights. Whatever the program raises passes through."""
        ...


def load(program: Program, scratch: Path, device: torch.device) -> LoadedProgram:
    """Import a program; a candidate's text becomes a file first, because Triton reads sources back."""
    if isinstance(program, CandidateProgram):
        return LoadedCandidate(program.source, scratch)
    return LoadedReference(program, device)


class LoadedCandidate:
    """A candidate's module."""

    def __init__(self, source: str, scratch: Path) -> None:
        path = scratch / CANDIDATE_FILE
        path.write_text(source)
        spec = importlib.util.spec_from_file_location("candidate", path)
        assert spec is not None and spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        sys.modules["candidate"] = module
        spec.loader.exec_module(module)
        entry = getattr(module, ENTRY, None)
        if not (isinstance(entry, type) and issubclass(entry, nn.Module)):
            raise InterfaceError(f"the candidate defines no class {ENTRY}(torch.nn.Module)")
        self._entry: Any = entry

    def construct(
        self,
        init_inputs: tuple[Any, ...],
        weights: Mapping[str, torch.Tensor],
        parameters: frozenset[str],
        device: torch.device,
        training: bool,
    ) -> Instance:
        with device:
            if hasattr(self._entry, "from_reference"):
                module = self._entry.from_reference(skeleton(weights, parameters), *init_inputs)
                if not isinstance(module, nn.Module):
                    raise InterfaceError(f"{ENTRY}.from_reference returned no torch.nn.Module")
                module.to(device).train(training)
                return Instance(module, module, training, repacked=True)
            module = self._entry(*init_inputs)
        adopt_weights(module, weights, device)
        module.train(training)
        return Instance(module, module, training, repacked=False)


class LoadedReference:
    """The problem's own model, eager or through torch.compile, or a library's way to compute the same."""

    def __init__(self, program: ReferenceProgram, device: torch.device) -> None:
        from kernelevolve.problems.instance import load_instance

        self._instance = load_instance(program.problem, device, check=False)
        self._library = self._instance.library if program.library else None
        self._mode = program.compile_mode
        if self._mode is not None:
            _lift_recompile_limits()

    def construct(
        self,
        init_inputs: tuple[Any, ...],
        weights: Mapping[str, torch.Tensor],
        parameters: frozenset[str],
        device: torch.device,
        training: bool,
    ) -> Instance:
        module = self._instance.make_model(seed=0)
        adopt_weights(module, weights, device)
        call: Callable[..., Any] = module if self._library is None else partial(self._library, module)
        if self._mode is not None:
            call = torch.compile(module, mode=self._mode, dynamic=False)
        return Instance(call, module, training, repacked=False)


def _lift_recompile_limits() -> None:
    """Beyond the limit the compiler silently runs eager code, and several workloads are several compilations."""
    import torch._dynamo.config as config

    for name in ("recompile_limit", "cache_size_limit", "accumulated_recompile_limit", "accumulated_cache_size_limit"):
        if hasattr(config, name):
            setattr(config, name, 1024)


def adopt_weights(module: nn.Module, weights: Mapping[str, torch.Tensor], device: torch.device) -> None:
    """Move a module to the device and copy the weights in; names, shapes and dtypes are then those of the weights.

    Raises InterfaceError unless the state dict has exactly these names and shapes.
    """
    module.to(device)
    state = module.state_dict(keep_vars=True)
    missing, extra = sorted(set(weights) - set(state)), sorted(set(state) - set(weights))
    if missing or extra:
        parts = [f"lacks {', '.join(missing[:8])}"] * bool(missing) + [f"also has {', '.join(extra[:8])}"] * bool(extra)
        raise InterfaceError(f"the state dict of {ENTRY} is not the reference's: it {' and '.join(parts)}")
    for name, tensor in weights.items():
        if state[name].shape != tensor.shape:
            raise InterfaceError(
                f"{name} has shape {list(state[name].shape)} in {ENTRY} and {list(tensor.shape)} in the reference"
            )
        if state[name].dtype != tensor.dtype:
            state[name].data = state[name].data.to(tensor.dtype)
    module.load_state_dict(dict(weights), strict=True)


class _Holder(nn.Module):
    """A module that holds tensors and computes nothing."""


def skeleton(weights: Mapping[str, torch.Tensor], parameters: frozenset[str]) -> nn.Module:
    """The reference's parameters and buffers under their own dotted names, without its ``forward``."""
    root = _Holder()
    for name, tensor in weights.items():
        *parents, leaf = name.split(".")
        holder: nn.Module = root
        for parent in parents:
            child = holder._modules.get(parent)
            if child is None:
                child = _Holder()
                holder.add_module(parent, child)
            holder = child
        copy = tensor.detach().clone()
        if name in parameters:
            holder.register_parameter(leaf, nn.Parameter(copy, requires_grad=copy.is_floating_point()))
        else:
            holder.register_buffer(leaf, copy)
    return root


def qualified_type(value: object) -> str:
    """Module and name of a value's exact type, ``torch.Tensor`` for a plain tensor."""
    return f"{type(value).__module__}.{type(value).__qualname__}"
