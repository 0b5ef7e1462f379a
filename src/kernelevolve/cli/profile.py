"""``kernelevolve profile``: what holds one file back, by what evidence, and how far it is from the ceiling."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from kernelevolve.cli.terminal import DEFAULT_OUT, JsonOption, OutOption, SandboxOption, console, print_json
from kernelevolve.cli.verify import EXIT_NOT_CORRECT
from kernelevolve.workers.sandbox import Sandbox


def profile(
    problem: Annotated[
        str, typer.Argument(metavar="PROBLEM", help="A problem file, or a shipped one: ranking/rmsnorm_residual.")
    ],
    candidate: Annotated[Path, typer.Argument(metavar="CANDIDATE", help="A Python file that defines ModelNew.")],
    target: Annotated[str, typer.Option(help="cpu, nvidia, or auto: an NVIDIA GPU if there is one.")] = "auto",
    workload: Annotated[
        str | None, typer.Option(metavar="NAME", help="The workload to profile; by default the slowest.")
    ] = None,
    profilers: Annotated[
        list[str] | None, typer.Option("--profiler", metavar="NAME", help="Only this one; may be given several times.")
    ] = None,
    scale: Annotated[float | None, typer.Option(help="Multiply the problem's batch size, e.g. by 0.125.")] = None,
    settings: Annotated[
        list[str] | None, typer.Option("--set", metavar="NAME=VALUE", help="Replace a constant of the problem file.")
    ] = None,
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
