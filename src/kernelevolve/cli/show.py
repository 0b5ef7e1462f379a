"""``kernelevolve show``: what a run found, why it is fast, and what failed and why."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from kernelevolve.cli.terminal import DEFAULT_OUT, JsonOption, OutOption, console, print_json
from kernelevolve.errors import InvalidRequest

if TYPE_CHECKING:
    from kernelevolve.report.contents import Contents, NodeEntry
    from kernelevolve.run import Run


def show(
    run: Annotated[
        str, typer.Argument(metavar="RUN", help="Its identifier, a clear beginning of it, its directory, or 'last'.")
    ] = "last",
    node: Annotated[int | None, typer.Option(help="Show one node: the judge's words and the source.")] = None,
    conversation: Annotated[
        bool, typer.Option("--conversation", help="With --node: what the language model was asked, and its answers.")
    ] = False,
    out: OutOption = DEFAULT_OUT,
    as_json: JsonOption = False,
) -> None:
    """Show a run: the tree, the best kernel, why it is fast, what failed and why."""
    if conversation and node is None:
        raise InvalidRequest("--conversation belongs to a node", fix="name one with --node N")
    from kernelevolve.report.contents import collect
    from kernelevolve.report.outline import print_node, print_outline
    from kernelevolve.report.summary import print_summary
    from kernelevolve.workspace import open_run

    found = open_run(run, out=out)
    contents = collect(found)
    if node is not None:
        if node not in contents.by_id:
            raise InvalidRequest(
                f"run {found.id} has no node {node}", fix=f"give a number from 0 to {len(contents.entries) - 1}"
            )
        entry = contents.by_id[node]
        if conversation:
            _show_conversation(found, node, as_json)
        elif as_json:
            print_json({**_node(entry), "source": entry.candidate.source, "detail": entry.verdict.detail})
        else:
            print_node(console(), entry)
    elif as_json:
        print_json(document(contents))
    else:
        print_outline(console(), contents)
        print_summary(console(), contents, found.directory)


def _show_conversation(run: Run, node: int, as_json: bool) -> None:
    from kernelevolve.report.conversation import print_conversation

    stored = next(stored for stored in run.history() if stored.node.id == node)
    exchanges = [] if stored.proposal is None else list(run.store.recordings.exchanges(run.id, stored.proposal))
    if not exchanges:
        raise InvalidRequest(f"node {node} was written by no language model", fix="leave --conversation out")
    if as_json:
        print_json({"run": run.id, "node": node, "exchanges": [e.model_dump(mode="json") for e in exchanges]})
    else:
        print_conversation(console(), exchanges)


def document(contents: Contents) -> dict[str, Any]:
    """What ``--json`` prints: the summary, and everything that the text shows."""
    from kernelevolve.report.explain import explain
    from kernelevolve.report.knobs import knobs

    return {
        **contents.summary.model_dump(mode="json"),
        "lineage": [entry.node.id for entry in contents.lineage],
        "why": list(explain(contents.best)) if contents.best is not None else [],
        "tunables": [
            {"name": k.sensitivity.name, "worst_over_best": k.sensitivity.ratio, "best": k.sensitivity.best,
             "at_edge": k.sensitivity.at_edge}
            for k in knobs(contents)
        ],
        "failures": [
            {"verdict": f.kind.value, "stage": f.stage.value, "reason": f.reason, "nodes": list(f.nodes)}
            for f in contents.failures
        ],
        "nodes": [_node(entry) for entry in contents.entries],
    }  # fmt: skip


def _node(entry: NodeEntry) -> dict[str, Any]:
    verdict = entry.verdict
    return {
        "id": entry.node.id, "parents": list(entry.node.parents), "operator": entry.node.operator,
        "language": entry.candidate.language, "config": entry.candidate.config, "verdict": verdict.kind.value,
        "stage": verdict.stage.value, "effort": verdict.effort.value, "reason": verdict.reason,
        "seconds": verdict.seconds, "roofline_fraction": verdict.roofline_fraction,
        "speedup": {s.baseline: s.model_dump(mode="json", exclude={"baseline"}) for s in verdict.speedups.values()},
        "trials": len(entry.trials),
    }  # fmt: skip
