"""The floors of docs/architecture.md, asserted: who imports whom, how long files are, and what starts without torch."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parent.parent / "src" / "kernelevolve"
LONGEST_FILE = 400

ROOMS = (
    ("version", "errors", "hashing", "registry", "candidates", "problems", "languages", "targets"),
    ("workers", "profilers", "judge"),
    ("tuning", "knowledge", "prompting", "operators", "search", "store"),
    ("skills", "engine"),
    (
        "loading",
        "run",
        "workspace",
        "report",
        "results",
        "ensemble",
        "vetting",
        "session",
        "agent",
        "front door",
        "doctor",
        "cli",
    ),
)
"""Floors from the ground up, and on each floor the rooms in their order: a room imports earlier ones only."""
ORDER = [room for floor in ROOMS for room in floor]

ENGINE = frozenset(
    {"briefing", "engine", "evaluation", "events", "finale", "interrupt", "ledger", "proposals", "settings", "slots"}
    | {"replay", "retuning", "stage", "state", "steady_state", "turns", "workshops"}
)
"""The modules of ``search/`` that are the engine's floor: what needs judge, store, operators and policies together."""
JUDGE_IN_PUBLIC = frozenset(
    {f"kernelevolve.{name}" for name in ("judge", "judge.protocol", "judge.verdict", "judge.diagnosis")}
)


@dataclass(frozen=True)
class Import:
    """One import statement of the package's own."""

    importer: str
    imported: str
    line: int

    def __str__(self) -> str:
        return f"{self.importer}:{self.line} imports {self.imported}"


def module_name(path: Path) -> str:
    parts = path.relative_to(PACKAGE.parent).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


@cache
def modules() -> dict[str, Path]:
    return {module_name(path): path for path in sorted(PACKAGE.rglob("*.py"))}


def room_of(module: str) -> str:
    parts = module.split(".")
    if len(parts) == 1:
        return "front door"
    if parts[1] == "search" and len(parts) > 2 and parts[2] in ENGINE:
        return "engine"
    return parts[1]


@cache
def imports() -> tuple[Import, ...]:
    """Every import of the package's own modules, those inside functions and under TYPE_CHECKING too."""
    return tuple(found for module, path in modules().items() for found in _imports_of(module, path))


def _imports_of(module: str, path: Path) -> Iterator[Import]:
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            yield from (Import(module, n.name, node.lineno) for n in node.names if n.name.startswith("kernelevolve"))
        elif isinstance(node, ast.ImportFrom) and node.level:
            raise AssertionError(f"{module}:{node.lineno} imports by a relative name, which no rule here sees")
        elif isinstance(node, ast.ImportFrom) and (node.module or "").startswith("kernelevolve"):
            for name in node.names:
                inner = f"{node.module}.{name.name}"
                yield Import(module, inner if inner in modules() else str(node.module), node.lineno)


def test_every_module_is_in_a_room_of_the_plan() -> None:
    assert {room_of(module) for module in modules()} <= set(ORDER)
    assert {f"kernelevolve.search.{name}" for name in ENGINE} <= set(modules())


def test_a_room_imports_only_rooms_before_it() -> None:
    """This also says that there is no cycle between rooms."""
    wrong = [
        str(found)
        for found in imports()
        if ORDER.index(room_of(found.imported)) > ORDER.index(room_of(found.importer))
        and found.imported != "kernelevolve"  # programs of the judge's corpus enter by the front door, as a user's do
    ]
    assert wrong == []


def test_no_module_imports_itself_by_way_of_others() -> None:
    """Within a room too, and no import inside a function or under TYPE_CHECKING hides a cycle."""
    graph = TopologicalSorter[str]()
    for found in imports():
        graph.add(found.importer, found.imported)
    try:
        graph.prepare()
    except CycleError as error:
        pytest.fail("import cycle: " + " imports ".join(reversed(error.args[1])))


def test_only_the_roof_knows_more_of_the_judge_than_its_protocol_and_verdicts() -> None:
    wrong = [
        str(found)
        for found in imports()
        if room_of(found.imported) == "judge"
        and found.imported not in JUDGE_IN_PUBLIC
        and room_of(found.importer) in (*ROOMS[2], *ROOMS[3])
    ]
    assert wrong == []


def test_workers_know_nothing_of_the_judge_and_of_what_is_expected() -> None:
    known = {room_of(found.imported) for found in imports() if room_of(found.importer) == "workers"}
    assert known <= {*ROOMS[0], "workers"}


@pytest.mark.parametrize(
    ("library", "rooms"),
    [
        ("sqlalchemy", {"store"}),
        ("typer", {"cli"}),
        ("rich", {"cli", "report"}),
        ("jinja2", {"prompting", "report"}),
        ("mcp", {"agent"}),
        ("pydantic_ai", {"operators"}),
        ("sklearn", {"tuning"}),
        ("cloudpickle", {"problems"}),
        ("yaml", {"knowledge"}),
        ("pypdf", {"knowledge"}),
    ],
)
def test_a_library_is_known_to_the_rooms_that_need_it(library: str, rooms: set[str]) -> None:
    pattern = re.compile(rf"^\s*(?:from|import) {library}\b", re.MULTILINE)
    users = {room_of(module) for module, path in modules().items() if pattern.search(path.read_text())}
    assert users == rooms


def test_no_file_is_long() -> None:
    long = {
        module: lines for module, path in modules().items() if (lines := path.read_text().count("\n")) > LONGEST_FILE
    }
    assert long == {}


@pytest.mark.parametrize(
    "module",
    [
        "kernelevolve", "kernelevolve.cli", "kernelevolve.workspace", "kernelevolve.search.engine",
        "kernelevolve.store", "kernelevolve.problems.loaders", "kernelevolve.operators", "kernelevolve.search.policies",
    ],
)  # fmt: skip
def test_starting_needs_no_torch(module: str) -> None:
    script = f"import sys, {module}; print([m for m in ('torch', 'triton', 'sklearn') if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", script], check=True, capture_output=True, text=True)
    assert done.stdout.strip() == "[]"


def test_every_name_of_the_front_door_can_be_had() -> None:
    import kernelevolve

    for name in kernelevolve.__all__:
        assert getattr(kernelevolve, name) is not None
    assert set(kernelevolve.__all__) <= set(dir(kernelevolve))
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        _ = kernelevolve.nothing
