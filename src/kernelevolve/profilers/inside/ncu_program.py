"""The program that runs under Nsight Compute: one candidate, called on inputs from a file, between start and stop."""

from __future__ import annotations

from pathlib import Path

import torch

from kernelevolve.workers.program import LoadedCandidate

SOURCE_FILE, DATA_FILE = "profiled.py", "profiled.pt"
_WARM_UP = 3
"""Calls that compile, tune and fill caches before the one that is looked at."""


def main(place: Path) -> None:
    """Load the candidate that lies in a directory, and call it."""
    device = torch.device("cuda")
    # Written by the worker that started this program, from what the judge gave it.
    data = torch.load(place / DATA_FILE, map_location=device, weights_only=False)
    program = LoadedCandidate((place / SOURCE_FILE).read_text(), place)
    instance = program.construct(
        data["init_inputs"], data["weights"], frozenset(data["parameters"]), device, data["training"]
    )
    with torch.set_grad_enabled(instance.training):
        for _ in range(_WARM_UP):
            instance.call(*data["inputs"])
        torch.cuda.synchronize()
        torch.cuda.cudart().cudaProfilerStart()  # type: ignore[no-untyped-call]
        instance.call(*data["inputs"])
        torch.cuda.synchronize()
        torch.cuda.cudart().cudaProfilerStop()  # type: ignore[no-untyped-call]
