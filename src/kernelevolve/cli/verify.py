"""``kernelevolve verify``: judge one file that somebody wrote."""

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
from kernelevolve.workers.sandbox import Sandbox

EXIT_NOT_CORRECT = 1


def verify(
    problem: ProblemArgument,
    candidate: CandidateArgument,
    target: TargetOption = "auto",
    strict: Annotated[
        bool,
        typer.Option(
            "--strict", help="Judge as a finalist is: held-out and stress workloads, a memory check, long timing."
        ),
    ] = False,
    scale: ScaleOption = None,
    settings: SettingsOption = None,
    out: OutOption = DEFAULT_OUT,
    sandbox: SandboxOption = Sandbox.AUTO,
    as_json: JsonOption = False,
) -> int:
    """Judge CANDIDATE as an answer to PROBLEM.

    Exit code 0: correct; 1: any other verdict; 2: bad input. Only a strict judgement can find it faster.
    """
    from kernelevolve import session
    from kernelevolve.cli.optimize import parse_setting
    from kernelevolve.judge.verdict import Effort
    from kernelevolve.problems.loaders import load_problem
    from kernelevolve.report.summary import print_verdict

    text = load_problem(problem, overrides=dict(map(parse_setting, settings or ())), scale=scale)
    effort = Effort.PROMOTION if strict else Effort.SCREEN
    with console(stderr=True).status("judging: build, correctness, timing beside the baselines"):
        verdict = session.verify(text, candidate, target=target, effort=effort, sandbox=sandbox, out=out)
    print_verdict(console(stderr=as_json), verdict)
    if as_json:
        print_json(
            {
                "verdict": verdict.kind.value,
                "stage": verdict.stage.value,
                "reason": verdict.reason,
                "speedup": {
                    s.baseline: s.model_dump(mode="json", exclude={"baseline", "confidence"})
                    for s in verdict.speedups.values()
                },
                "effort": verdict.effort.value,
                "faster": verdict.wins,
                "seconds": verdict.seconds,
                "roofline_fraction": verdict.roofline_fraction,
                "detail": verdict.detail,
                "notes": list(verdict.notes),
                "environment": verdict.measurement.environment if verdict.measurement is not None else {},
            }
        )
    return 0 if verdict.correct else EXIT_NOT_CORRECT
