"""``kernelevolve vet``: which problems can tell a right kernel from a wrong one, before anything is searched for."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from kernelevolve.cli.terminal import (
    JsonOption,
    TargetOption,
    console,
    print_json,
)

EXIT_NOT_ALL = 1


def vet(
    paths: Annotated[
        list[str],
        typer.Argument(metavar="PATH…", help="Problem files, directories of them, or shipped problems by name."),
    ],
    target: TargetOption = "auto",
    scale: Annotated[float | None, typer.Option(help="Multiply every problem's batch size, e.g. by 0.125.")] = None,
    every_workload: Annotated[
        bool, typer.Option("--every-workload", help="Examine all workloads, also if the first can tell.")
    ] = False,
    as_json: JsonOption = False,
) -> int:
    """Say of every problem whether a wrong result would be seen.

    Each is put to results that take no work: zeros, a constant, a copy of an input, the result for other inputs. Where
    such a result would pass, nothing that a search finds means anything. Exit code 0: all can be judged; 1: some
    cannot, or cannot be run.
    """
    from kernelevolve.report.vetting import VettingProgress, document_of
    from kernelevolve.targets import resolve
    from kernelevolve.vetting import vet_problems

    device = resolve(target)
    progress = VettingProgress(console(stderr=as_json))
    vetted = []
    for found in vet_problems(_listed(paths), device, scale=scale, every_workload=every_workload):
        vetted.append(found)
        progress.add(found)
    progress.close(vetted)
    if as_json:
        print_json(document_of(vetted, device.device_name()))
    return 0 if all(found.usable for found in vetted) else EXIT_NOT_ALL


def _listed(paths: list[str]) -> list[str]:
    """Files as they are, directories as the Python files below them in the order of their numbers."""
    from kernelevolve.errors import InvalidProblem

    places: list[str] = []
    for text in paths:
        path = Path(text)
        if not path.is_dir():
            places.append(text)
            continue
        files = sorted(path.rglob("*.py"), key=lambda p: (p.parent, _number(p.stem), p.name))
        if not files:
            raise InvalidProblem("there is no Python file below this directory", path=path, fix="give problem files")
        places += map(str, files)
    return places


def _number(stem: str) -> int:
    head = stem.partition("_")[0]
    return int(head) if head.isdigit() else 1 << 30
