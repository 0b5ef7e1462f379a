"""``kernelevolve profile``: what holds one file back, by what evidence, and how far it is from the ceiling."""

from __future__ import annotations

from typing import Annotated

import typer

from kernelevolve.cli.terminal import (
    DEFAULT_OUT,
    CandidateArgument,
    JsonOption,
    OutOption,
    ProblemArgument,
    SandboxOption,
    ScaleOption,
    SettingsOption,
    TargetOption,
    console,
    print_json,
)
from kernelevolve.cli.verify import EXIT_NOT_CORRECT
from kernelevolve.workers.sandbox import Sandbox


def profile(
    problem: ProblemArgument,
    candidate: CandidateArgument,
    target: TargetOption = "auto",
    workload: Annotated[
        str | None, typer.Option(metavar="NAME", help="The workload to profile; by default the slowest.")
    ] = None,
    profilers: Annotated[
        list[str] | None, typer.Option("--profiler", metavar="NAME", help="Only this one; may be given several times.")
    ] = None,
    scale: ScaleOption = None,
    settings: SettingsOption = None,
    out: OutOption = DEFAULT_OUT,
    sandbox: SandboxOption = Sandbox.AUTO,
    as_json: JsonOption = False,
) -> int:
    """Judge CANDIDATE as an answer to PROBLEM, then say what takes its time.

    Exit code 0: correct; 1: any other verdict (one that is wrong and runs is profiled all the same); 2: bad input.
    """
    from kernelevolve import session
    from kernelevolve.cli.optimize import parse_setting
    from kernelevolve.problems.loaders import load_problem
    from kernelevolve.report.profile import print_diagnosis

    text = load_problem(problem, overrides=dict(map(parse_setting, settings or ())), scale=scale)
    with console(stderr=True).status("judging, then profiling"):
        verdict, diagnosis = session.profile(
            text, candidate, target=target, workload=workload, profilers=profilers, sandbox=sandbox, out=out
        )
    print_diagnosis(console(stderr=as_json), verdict, diagnosis)
    if as_json:
        print_json(
            {
                "verdict": verdict.kind.value,
                "reason": verdict.reason,
                "diagnosis": diagnosis.model_dump(mode="json"),
                "environment": verdict.measurement.environment if verdict.measurement is not None else {},
            }
        )
    return 0 if verdict.correct else EXIT_NOT_CORRECT
