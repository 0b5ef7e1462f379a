"""Loading a kernel into the caller's process, as a module that stands in for the reference."""

from __future__ import annotations

import shutil
import tempfile
import weakref
from pathlib import Path

import torch
from torch import nn

from kernelevolve.candidates import Candidate
from kernelevolve.candidates.structure import materialise
from kernelevolve.errors import InvalidRequest
from kernelevolve.problems import Problem
from kernelevolve.problems.instance import load_instance
from kernelevolve.workers.program import InterfaceError, LoadedCandidate


def load_kernel(
    problem: Problem, candidate: Candidate, device: torch.device, reference: nn.Module | None = None, *, seed: int = 0
) -> nn.Module:
    """``ModelNew`` of a candidate on the device, with the weights of ``reference`` or fresh ones drawn with ``seed``.

    The candidate's code runs in this process, so it should be one that the judge promoted. Raises InvalidRequest if
    the weights are not those of the problem's model.
    """
    instance = load_instance(problem, device)
    model = instance.make_model(seed) if reference is None else reference
    weights = {name: value.detach() for name, value in model.state_dict().items()}
    parameters = frozenset(name for name, _ in model.named_parameters(remove_duplicate=False))
    place = Path(tempfile.mkdtemp(prefix="kernelevolve-kernel-"))
    try:
        loaded = LoadedCandidate(materialise(candidate), place)
        made = loaded.construct(instance.init_inputs(seed), weights, parameters, device, instance.training)
        # The file lives as long as the module: Triton and tracebacks read the source back from it.
        weakref.finalize(made.module, shutil.rmtree, place, ignore_errors=True)
        return made.module
    except InterfaceError as error:
        raise InvalidRequest(
            f"the weights do not fit the kernel: {error}", fix="give a module of the class that was optimized"
        ) from None
