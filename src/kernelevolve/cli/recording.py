"""``kernelevolve replay`` and ``export``: what can be done with the recording of a run."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Annotated

import typer

from kernelevolve.cli.agent import RunArgument
from kernelevolve.cli.terminal import DEFAULT_OUT, JsonOption, OutOption, console, print_json
from kernelevolve.errors import InvalidRequest

EXIT_DIFFERENT = 1


def replay(run: RunArgument = "last", out: OutOption = DEFAULT_OUT, as_json: JsonOption = False) -> int:
    """Make the decisions of RUN again from its recording, judging nothing, and compare the graph.

    Exit code 0: it is the same; 1: it is not, and the first difference is told.
    """
    from kernelevolve.ensemble import recorded_operators
    from kernelevolve.search.policies import POLICIES
    from kernelevolve.search.replay import replay as replayed
    from kernelevolve.search.settings import SearchSettings
    from kernelevolve.targets import TARGETS
    from kernelevolve.workspace import open_run

    found = open_run(run, out=out)
    record = found.record
    settings = SearchSettings.model_validate(record.settings)
    result = replayed(
        found.store, record, settings, POLICIES.get(settings.policy),
        recorded_operators(settings, found.store, record), TARGETS.get(record.target),
    )  # fmt: skip
    if as_json:
        print_json({"run": found.id, "nodes": result.nodes, "difference": result.difference or None})
    words = result.difference or "the same graph"
    console(stderr=as_json).print(f"{found.id}: {result.nodes} nodes replayed, {words}", soft_wrap=True)
    return EXIT_DIFFERENT if result.difference else 0


def export(
    run: RunArgument = "last",
    form: Annotated[str, typer.Option("--format", help="sft, dpo or grpo: the dataset formats of TRL.")] = "sft",
    output: Annotated[Path | None, typer.Option(help="File to write; standard output without it.")] = None,
    out: OutOption = DEFAULT_OUT,
) -> None:
    """Write RUN as training data, one JSON object a line: prompts, programs, verdicts and rewards."""
    from kernelevolve.agent.trajectories import Format, trajectories
    from kernelevolve.workspace import open_run

    if form not in set(Format):
        raise InvalidRequest(f"there is no format {form!r}", fix=f"use one of: {', '.join(Format)}")
    # ASCII: some readers end a line at Unicode's separators, which a candidate may contain.
    lines = (json.dumps(line) + "\n" for line in trajectories(open_run(run, out=out), Format(form)))
    if output is None:
        sys.stdout.writelines(lines)
        return
    try:
        with output.open("w", encoding="utf-8") as file:
            file.writelines(lines)
    except OSError as error:
        raise InvalidRequest(
            f"it cannot be written: {error.strerror}", path=output, fix="choose another --output"
        ) from None
