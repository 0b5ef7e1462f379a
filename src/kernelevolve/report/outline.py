"""The search tree, and one node of it, as text."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from rich.console import Console
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from kernelevolve.report.contents import Contents, NodeEntry
from kernelevolve.report.explain import structure_of
from kernelevolve.report.style import VERDICT_STYLES
from kernelevolve.report.summary import print_verdict
from kernelevolve.report.units import MISSING, ratio_text, seconds_text

_WHOLE_TREE = 120
"""Nodes up to which all correct ones are drawn; beyond, only the winning path and its nearest relatives."""
_DEEPEST_INDENT = 24


def print_outline(console: Console, contents: Contents) -> None:
    """The tree by first parents; failed candidates without children are counted, not listed."""
    console.print(Text(f"run {contents.summary.run}, policy {contents.policy}", "bold"))
    children: dict[int | None, list[NodeEntry]] = {}
    for entry in contents.entries:
        children.setdefault(entry.node.parents[0] if entry.node.parents else None, []).append(entry)
    path = {entry.node.id for entry in contents.lineage}
    shown = None if len(contents.entries) <= _WHOLE_TREE else path
    best = contents.best.node.id if contents.best is not None else None
    # A stack and not recursion: a greedy search can be a chain of a thousand nodes.
    stack: list[tuple[int, NodeEntry | Text]] = _level(0, children.get(None, ()), children, shown)
    while stack:
        depth, item = stack.pop()
        indent = "  " * min(depth, _DEEPEST_INDENT)
        if isinstance(item, Text):
            console.print(Text(indent) + item, soft_wrap=True)
            continue
        line = Text(indent)
        line.append("★ " if item.node.id == best else "● " if item.node.id in path else "○ ", "bold cyan")
        line.append(f"{item.node.id} ", "bold" if item.node.id in path else "")
        line.append(f"{item.node.operator} ")
        line.append(f"{item.verdict.kind.replace('_', ' ')} ", VERDICT_STYLES[item.verdict.kind])
        line.append(f"{seconds_text(item.verdict.seconds)}, {_ratio(item)} the best baseline" if item.ratio else "")
        line.append(f", also from {', '.join(map(str, item.node.parents[1:]))}" if len(item.node.parents) > 1 else "")
        console.print(line, soft_wrap=True)
        stack += _level(depth + 1, children.get(item.node.id, ()), children, shown)


def print_node(console: Console, entry: NodeEntry) -> None:
    """Everything about one node: where it comes from, the judge's words, its decisions, its source."""
    parents = ", ".join(map(str, entry.node.parents))
    made = f"{entry.node.operator} from {parents}" if parents else f"{entry.node.operator}, a draft"
    console.print(Text(f"node {entry.node.id}: {made}, {entry.candidate.language}", "bold"))
    print_verdict(console, entry.verdict)
    table = Table.grid(padding=(0, 3, 0, 0))
    for name, value in [*structure_of(entry).items(), *entry.candidate.config.items()]:
        table.add_row(Text(name, "dim"), str(value))
    if entry.trials:
        times = sorted(s for _, s in entry.trials if s is not None)
        spread = f", {seconds_text(times[0])} to {seconds_text(times[-1])}" if times else ""
        table.add_row(Text("trials", "dim"), f"{len(entry.trials)}{spread}, {len(entry.trials) - len(times)} failed")
    console.print(Padding(table, (1, 0)))
    console.print(Text(entry.text), soft_wrap=True)


def _level(
    depth: int, entries: Sequence[NodeEntry], children: dict[int | None, list[NodeEntry]], shown: set[int] | None
) -> list[tuple[int, NodeEntry | Text]]:
    """The lines of one parent's children, the last first, for a stack."""
    listed = [e for e in entries if (e.node.correct or e.node.id in children) and (shown is None or e.node.id in shown)]
    left_out = Counter(e.verdict.kind for e in entries if e not in listed)
    lines: list[tuple[int, NodeEntry | Text]] = [(depth, entry) for entry in listed]
    if left_out:
        note = Text("  ")
        for kind, count in left_out.most_common():
            note.append(f"{count} {kind.replace('_', ' ')}  ", VERDICT_STYLES[kind])
        lines.append((depth, note))
    return lines[::-1]


def _ratio(entry: NodeEntry) -> str:
    return ratio_text(entry.ratio) if entry.ratio is not None else MISSING
