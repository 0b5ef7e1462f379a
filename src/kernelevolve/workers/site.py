"""Site: what a probe finds in a worker. A probe is a function of ours that a profiler sends to look at a program."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from kernelevolve.workers.device import WorkerDevice
from kernelevolve.workers.program import Instance


@dataclass(frozen=True, slots=True)
class Site:
    """One worker from inside. What a probe reports is the word of a process that the program shares: evidence only."""

    scratch: Path
    """The one directory that can be written."""
    device: WorkerDevice
    instances: Mapping[str, Instance]
    bindings: Mapping[str, tuple[Any, ...]]
    """Inputs by the name of their binding; they view the judge's memory."""

    def call(self, instance: str, binding: str) -> Any:
        """Call an instance on the inputs of a binding and wait until the device has finished."""
        program = self.instances[instance]
        with torch.set_grad_enabled(program.training):
            result = program.call(*self.bindings[binding])
        if self.device.torch_device.type == "cuda":
            torch.cuda.synchronize()
        return result
