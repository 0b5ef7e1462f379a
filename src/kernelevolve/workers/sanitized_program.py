"""The program that runs under compute-sanitizer: one candidate, called once on each of some workloads from files.

It shuts itself in once more before the candidate is loaded, so that this can neither write to the sanitizer's log nor
reach into the processes that hold it. Signals it can send them: a sanitizer that is killed has no finding and no
summary, which counts as not watched.
"""

from __future__ import annotations

import contextlib
import json
import os
import sys
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from time import monotonic
from typing import Any, TextIO

import torch

from kernelevolve.workers import landlock, mounts
from kernelevolve.workers.devices import worker_device
from kernelevolve.workers.guarded import OwnInputs
from kernelevolve.workers.isolation import OWN_THREADS
from kernelevolve.workers.layout import TensorSlot, materialise
from kernelevolve.workers.messages import CandidateProgram
from kernelevolve.workers.program import load

PLAN_FILE = "plan.pt"
LEAST_SECONDS = 0.5
"""With less time left no further workload is begun."""


@dataclass(frozen=True, slots=True)
class Case:
    """What a candidate is called with on one workload. Places are in ``memory``, which is uint8 on the CPU."""

    memory: torch.Tensor
    init_inputs: tuple[Any, ...]
    weights: Mapping[str, TensorSlot]
    inputs: tuple[Any, ...]


@dataclass(frozen=True, slots=True)
class Plan:
    """What the judge wants called; written by it, and read before the candidate is there."""

    source: str
    device_type: str
    threads: int
    training: bool
    parameters: frozenset[str]
    writable: tuple[str, ...]
    """Directories for temporary files, besides the scratch."""
    cases: tuple[tuple[str, str], ...]
    """Name of a workload, and of the file with its ``Case``, in the order in which they are called."""


@dataclass(frozen=True, slots=True)
class Start:
    """What the program is told by the worker that starts it. Everything but ``seconds`` is a path."""

    report: str
    scratch: str
    log: str
    progress: str
    seconds: float
    """For all calls together."""

    def encode(self) -> str:
        """As one word of a command."""
        return json.dumps(asdict(self))


def main(encoded: str) -> None:
    """Call the candidate; every workload that it came through is noted as one line of JSON."""
    start = Start(**json.loads(encoded))
    report, scratch = Path(start.report), Path(start.scratch)
    plan = torch.load(report / PLAN_FILE, weights_only=False)
    assert isinstance(plan, Plan)
    with Path(start.progress).open("w", buffering=1) as progress:
        try:
            _shut_in(plan, start)
        except OSError as error:
            note(progress, unguarded=str(error))
            return
        try:
            _call_all(plan, report, scratch, start.seconds, progress)
        except BaseException as fault:
            note(progress, failed=f"{type(fault).__name__}: {fault}"[:400])
            raise


def note(progress: TextIO, **said: object) -> None:
    """One line for the judge."""
    progress.write(json.dumps(said) + "\n")


def _shut_in(plan: Plan, start: Start) -> None:
    """Keep this process from the sanitizer's log, for good. Raises OSError where the kernel has no way to."""
    for entry in tuple(Path("/proc/self/fd").iterdir()):
        with contextlib.suppress(OSError):  # The descriptor of the listing itself has gone by now.
            if str(entry.readlink()) == start.log:
                os.close(int(entry.name))
    report = Path(start.report)
    places = [Path(place) for place in plan.writable if not report.is_relative_to(place)]
    # The sanitizer speaks to the processes that it watches through sockets, so these stay open.
    rules = landlock.Rules(
        (Path("/"),), (Path(start.scratch), *places, OWN_THREADS), mounts.device_nodes(), scoped=False
    )
    landlock.restrict(rules)


def _call_all(plan: Plan, report: Path, scratch: Path, seconds: float, progress: TextIO) -> None:
    device = worker_device(plan.device_type, plan.threads, cache_bytes=1)
    program = load(CandidateProgram(plan.source), scratch, device.torch_device)
    for name, file in plan.cases:
        case = torch.load(report / file, weights_only=False)
        assert isinstance(case, Case)
        memory = case.memory.to(device.torch_device)
        weights = {key: slot.view(memory).clone() for key, slot in case.weights.items()}
        init_inputs = materialise(case.init_inputs, memory.clone())
        instance = program.construct(init_inputs, weights, plan.parameters, device.torch_device, plan.training)
        inputs = OwnInputs(case.inputs, memory).inputs
        begun = monotonic()
        with torch.set_grad_enabled(instance.training):
            instance.call(*inputs)
        if plan.device_type == "cuda":
            torch.cuda.synchronize()
        seconds -= monotonic() - begun
        note(progress, called=name)
        if seconds < LEAST_SECONDS:
            break
    sys.stdout.flush()
    sys.stderr.flush()
