"""The compiler once more, for what it says of each loop. Runs in the worker, because the source is not trusted."""

from __future__ import annotations

import re
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from kernelevolve.languages import cpp
from kernelevolve.languages.build_cache import BuildError, run_compiler
from kernelevolve.profilers.inside.recording import current
from kernelevolve.workers.site import Site

_REMARK = re.compile(
    r"^(?P<file>[^\s:]+):(?P<line>\d+):(?P<column>\d+): (?P<kind>optimized|missed|note): +(?P<text>.*)"
)
_WIDTH = re.compile(r"loop vectorized using (\d+) byte vectors")
_FAILED, _REASON, _IN_ORDER = "couldn't vectorize loop", "not vectorized: ", "using an in-order (fold-left) reduction"
_OUTER = ("loop nest", "nested loops", "inner-loop", "outer loop", "OpenMP")
"""In reasons that are about a loop round the one that counts."""
_LINE_LIMIT, _LOOP_LIMIT = 160, 60


@dataclass(slots=True)
class Loop:
    """What the compiler did with the loop on one line."""

    line: int
    vector_bytes: int = 0
    """0: not vectorised."""
    in_order: bool = False
    """The sum is taken element by element, as the standard demands, and only the loads are wide."""
    reason: str = ""
    """Why it was not vectorised, in the compiler's words."""
    source: int = 0
    last: int = 0
    """Line on which it ends."""
    text: str = ""


def parse_remarks(log: str, file: str) -> list[Loop]:
    """The loops of one file, from what ``g++ -fopt-info-vec-all-internals`` said.

    A loop that was vectorised in one form counts as vectorised: the others are its rest and its alternatives. Loops
    round others are left out.
    """
    loops: dict[int, Loop] = {}
    failed: int | None = None
    for line in log.splitlines():
        match = _REMARK.match(line)
        if match is None or match["file"] != file:
            continue
        at, text = int(match["line"]), match["text"].strip()
        width = _WIDTH.match(text)
        if width is not None:
            loop = loops.setdefault(at, Loop(at))
            loop.vector_bytes = max(loop.vector_bytes, int(width[1]))
        elif text.startswith(_IN_ORDER):
            loops.setdefault(at, Loop(at)).in_order = True
        elif text.startswith(_FAILED):
            failed = at
        elif text.startswith(_REASON) and failed is not None:
            reason = text.removeprefix(_REASON)[:_LINE_LIMIT]
            if not any(word in reason for word in _OUTER):
                loop = loops.setdefault(failed, Loop(failed))
                loop.reason = loop.reason or reason
            failed = None
    found = [loop for _, loop in sorted(loops.items()) if loop.vector_bytes or loop.reason]
    for loop in found:
        loop.reason = "" if loop.vector_bytes else loop.reason
    return found


def remarks(site: Site) -> dict[str, Any]:
    """Probe: the loops of every source that the candidate has built."""
    found: list[Loop] = []
    for index, built in enumerate(current().builds):
        name = write_source(site.scratch, index, built.source)
        command = [str(cpp.compiler()), *built.flags, f"-I{cpp.INCLUDE}", "-fopt-info-vec-all-internals", "-S"]
        try:
            log = run_compiler([*command, name, "-o", "/dev/null"], site.scratch)
        except BuildError as error:
            return {"trouble": error.excerpt[:500]}
        for loop in parse_remarks(log, name):
            loop.source, loop.text = index, line_of(built.source, loop.line)
            loop.last = last_line(built.source, loop.line)
            found.append(loop)
    return {"loops": [asdict(loop) for loop in found[:_LOOP_LIMIT]]}


def last_line(source: str, first: int) -> int:
    """The line on which the statement that begins on line ``first`` ends: by brackets, literals not looked into."""
    depth = 0
    for at, line in enumerate(source.splitlines()[first - 1 :], start=first):
        for character in line:
            if character in "({":
                depth += 1
            elif character in ")}":
                depth -= 1
                if character == "}" and depth <= 0:
                    return at
            elif character == ";" and depth <= 0:
                return at
    return first


def write_source(place: Path, index: int, source: str) -> str:
    """Put a source into a file; its name."""
    name = f"source-{index + 1}.cpp"
    (place / name).write_text(source)
    return name


def line_of(source: str, line: int) -> str:
    """One line of a source, without its indentation and shortened."""
    lines = source.splitlines()
    return lines[line - 1].strip()[:_LINE_LIMIT] if 0 < line <= len(lines) else ""
