"""Reader of callgrind's output files (format: valgrind manual, "Callgrind Format Specification")."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from pathlib import PurePath

Costs = dict[str, int]
_COST = re.compile(r"^(?P<position>\*|[+-]?\d+)(?P<costs>(?: \d+)*)\s*$")


@dataclass(slots=True)
class Counts:
    """Events of a run, and where they happened; what a called function does counts there and not in its caller."""

    totals: Costs = field(default_factory=dict)
    lines: dict[tuple[str, int], Costs] = field(default_factory=dict)
    """(base name of a file, line) -> event -> count."""
    functions: dict[tuple[str, str], Costs] = field(default_factory=dict)
    """(base name of the object, name) -> event -> count."""
    files: dict[tuple[str, str], Costs] = field(default_factory=dict)
    """(base name of the object, base name of the file) -> event -> count; inlined code counts where it is written."""


def parse_callgrind(text: str) -> Counts:
    """The counts of one output file that was written without compressed names. Unknown lines are passed over."""
    counts, library, file, function, line = Counts(), "", "", "", 0
    events: list[str] = []
    inclusive = False
    for row in text.splitlines():
        if match := _COST.match(row):
            position, numbers = match["position"], [int(n) for n in match["costs"].split()]
            relative = position[0] in "+-"
            line = line if position == "*" else line + int(position) if relative else int(position)
            if inclusive:
                inclusive = False  # What the callee did; it has lines of its own.
                continue
            costs = dict(zip(events, numbers, strict=False))
            _add(counts.lines.setdefault((file, line), {}), costs)
            _add(counts.functions.setdefault((library, function), {}), costs)
            _add(counts.files.setdefault((library, file), {}), costs)
            _add(counts.totals, costs)
            continue
        key, separator, value = row.partition("=")
        if separator and key in ("fl", "fi", "fe"):
            file = PurePath(value).name
        elif separator and key == "ob":
            library = PurePath(value).name
        elif separator and key == "fn":
            function = value
        elif separator and key == "calls":
            inclusive = True
        elif row.startswith("events:"):
            events = row.split()[1:]
    return counts


def _add(total: Costs, more: Costs) -> None:
    for event, count in more.items():
        total[event] = total.get(event, 0) + count
