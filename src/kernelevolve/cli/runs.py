"""``kernelevolve list``: the runs of a workspace."""

from __future__ import annotations

from kernelevolve.cli.terminal import DEFAULT_OUT, JsonOption, OutOption, console, print_json


def list_runs(out: OutOption = DEFAULT_OUT, as_json: JsonOption = False) -> None:
    """List the runs, newest first."""
    from rich.table import Table

    from kernelevolve.workspace import existing_store

    records = existing_store(out).runs()
    if as_json:
        print_json(
            {
                "runs": [
                    {
                        "run": r.id, "created": r.created.isoformat(), "problem": r.problem.name, "target": r.target,
                        "device": r.device, "status": r.status.value, "reason": r.reason,
                    }
                    for r in records
                ]
            }
        )  # fmt: skip
        return
    table = Table(box=None, header_style="dim", padding=(0, 2, 0, 0))
    for name in ("run", "problem", "target", "begun (UTC)", "status", "reason"):
        table.add_column(name, no_wrap=name == "run")
    for r in records:
        table.add_row(r.id, r.problem.name, r.target, f"{r.created:%Y-%m-%d %H:%M}", r.status.value, r.reason)
    console().print(table)
