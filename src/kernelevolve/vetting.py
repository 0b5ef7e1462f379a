"""Vetting: whether problems tell a right result from a wrong one, before anything is searched for."""

from __future__ import annotations

import gc
from collections.abc import Iterable, Iterator
from time import perf_counter
from typing import TYPE_CHECKING

from kernelevolve.errors import InvalidProblem, KernelEvolveError
from kernelevolve.problems import Problem
from kernelevolve.problems.execution import is_out_of_memory
from kernelevolve.problems.loaders import load_problem
from kernelevolve.targets import Target

if TYPE_CHECKING:
    from kernelevolve.judge.vetting import VettedProblem, VettingReport


def vet_problems(
    places: Iterable[str], target: Target, *, scale: float | None = None, every_workload: bool = False
) -> Iterator[VettedProblem]:
    """Vet problems on a device, one after the other. What is wrong with one is told, not raised.

    The workloads of a problem are examined until one tells a right result from a wrong one, or all of them.
    """
    import torch

    from kernelevolve.judge.vetting import VettedProblem

    for place in places:
        start, name, report, complaint = perf_counter(), place, None, ""
        try:
            problem = load_problem(place, scale=scale)
            name = problem.name
            report = _vet(problem, target, until_usable=not every_workload)
        except KernelEvolveError as error:
            complaint = error.sentence
        except (RuntimeError, MemoryError) as error:
            if not is_out_of_memory(error):
                raise
            complaint = "vetting does not fit the memory; make the problem smaller with --scale"
        if target.device_type == "cuda":
            gc.collect()
            torch.cuda.empty_cache()  # The next problem may need what this one took.
        yield VettedProblem(place, name, report, complaint, perf_counter() - start)


def _vet(problem: Problem, target: Target, *, until_usable: bool, check: bool = True) -> VettingReport:
    from kernelevolve.judge.oracle import Oracle
    from kernelevolve.judge.vetting import vet
    from kernelevolve.problems.instance import load_instance

    instance = load_instance(problem, target.device_type, check=check)
    return vet(instance, Oracle(instance, problem.tolerance), instance.workloads, until_usable=until_usable)


def refuse_vacuous(problem: Problem, target: Target) -> None:
    """InvalidProblem if no workload tells a right result from a wrong one: nothing found there would mean anything."""
    report = _vet(problem, target, until_usable=True, check=False)
    if not report.vacuous:
        return
    reason = next(iter(report.reasons), "")
    raise InvalidProblem(
        f"no workload of {problem.name} tells a right result from a wrong one: {reason}",
        path=problem.path,
        fix="give it a get_workloads() whose values move every output",
    )
