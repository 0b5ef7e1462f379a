"""Where output goes: with ``--json`` one document on stdout and every word for people on stderr."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from kernelevolve.errors import InvalidRequest
from kernelevolve.workers.sandbox import Sandbox

if TYPE_CHECKING:
    from rich.console import Console

JsonOption = Annotated[
    bool, typer.Option("--json", help="Print one JSON document on stdout and everything for people on stderr.")
]
ProblemArgument = Annotated[
    str, typer.Argument(metavar="PROBLEM", help="A problem file, or a shipped one: ranking/rmsnorm_residual.")
]
CandidateArgument = Annotated[Path, typer.Argument(metavar="CANDIDATE", help="A Python file that defines ModelNew.")]
TargetOption = Annotated[str, typer.Option(help="cpu, nvidia, or auto: an NVIDIA GPU if there is one.")]
ScaleOption = Annotated[float | None, typer.Option(help="Multiply the problem's batch size, e.g. by 0.125.")]
SettingsOption = Annotated[
    list[str] | None, typer.Option("--set", metavar="NAME=VALUE", help="Replace a constant of the problem file.")
]
OutOption = Annotated[Path, typer.Option("--out", help="Directory that holds the runs.")]
SandboxOption = Annotated[
    Sandbox,
    typer.Option(
        help="How candidates are shut in: as well as this machine can, refused unless fully, or not at all.",
    ),
]
RunSandboxOption = Annotated[
    Sandbox | None,
    typer.Option("--sandbox", help="How candidates are shut in; by default as the run began. none is said each time."),
]
NoSkillsOption = Annotated[
    bool, typer.Option("--no-skills", help="Use nothing that earlier runs in OUT learnt or found.")
]
InjectionOption = Annotated[
    float | None,
    typer.Option(help="Share of prompts that show what earlier runs learnt, from 0 to 1.  [default: 0.75]"),
]
DEFAULT_OUT = Path("runs")


def skill_options(no_skills: bool, injection: float | None) -> dict[str, Any]:
    """What the two options say to a session. Raises InvalidRequest."""
    if no_skills and injection:
        raise InvalidRequest("--no-skills shows no skills at any rate", fix="give --no-skills or --injection, not both")
    if injection is not None and not 0 <= injection <= 1:
        raise InvalidRequest(f"--injection {injection:g} is no share", fix="give a number from 0 to 1")
    return {"skills": not no_skills} | ({} if injection is None else {"injection": injection})


def console(*, stderr: bool = False) -> Console:
    """The console for people."""
    from kernelevolve.report.console import PlainConsole

    return PlainConsole(stderr=stderr)


def print_json(document: Mapping[str, Any]) -> None:
    """Write the one document to stdout. Infinite and NaN numbers, which JSON lacks, become null."""
    sys.stdout.write(json.dumps(_finite(document), indent=2, allow_nan=False) + "\n")
    sys.stdout.flush()


def _finite(value: Any) -> Any:
    if isinstance(value, float):
        return value if abs(value) < float("inf") else None
    if isinstance(value, Mapping):
        return {str(key): _finite(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_finite(item) for item in value]
    return value
