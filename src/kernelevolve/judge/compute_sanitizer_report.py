"""What compute-sanitizer wrote into its log, as one sentence and a trimmed report. Text is read, no more.

Every line of a log begins with a row of ``=``. Behind it a finding begins at the margin; what belongs to it is
indented.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from kernelevolve.judge.named_blocks import block_in_words
from kernelevolve.judge.sanitizer_report import Report
from kernelevolve.workers.program import CANDIDATE_FILE

_MARGIN = re.compile(r"^=========(?: (?P<text>.*))?$")
_INVALID = re.compile(r"Invalid __(\w+)__ (read|write|atomic)\w* of size ([\d,]+) bytes?", re.IGNORECASE)
_OTHER_MEMORY = re.compile(r"(Stack overflow|Malloc/Free error)", re.IGNORECASE)
_RACE = re.compile(r"Error: (?:Race reported between (?P<first>.+)|Potential (?P<kind>\w+) hazard detected)")
_BARRIER = re.compile(r"Barrier error detected\.?\s*(.*)")
_NEAREST = re.compile(
    r"is ([\d,]+) bytes (after|before) the nearest allocation at 0x[0-9a-f]+\s+of size ([\d,]+) bytes"
)
_ACCESS = re.compile(r"(?:and )?(?P<what>\w+) access (?P<place>at .+?)(?: \[[\d,]+ hazards?\])?$", re.IGNORECASE)
_PLACE = re.compile(
    r"^at (?P<function>.+?)\+0x[0-9a-f]+(?:\s+in (?P<file>\S+?):(?P<line>\d+))?$"
    r"|^at 0x[0-9a-f]+ in (?:(?P<older_file>[^\s:]+):(?P<older_line>\d+):)?(?P<older_function>.+)$"
)
_THREAD = re.compile(r"^by threads? (\([\d,]+\)).* in block (\([\d,]+\))")
_BACKTRACE = re.compile(r"^(Saved host backtrace|Host Frame|in \S+\.so\b)")
_FOLDER = re.compile(r"(?<=\bin )\S*/")
_SUMMARY = re.compile(
    r"(?:ERROR SUMMARY: (\d+) errors?|RACECHECK SUMMARY: \d+ hazards? displayed \((\d+) errors?, \d+ warnings?\))"
)
_TROUBLE = re.compile(r"^(Error: (?!Race|Potential)|Internal Sanitizer Error|.*not supported|.*[Uu]nrecogni[sz]ed)")
_VERBS = {"read": "reads", "write": "writes", "atomic": "updates"}
_LONGEST_NAME, _LONGEST_DETAIL = 80, 3000


@dataclass(frozen=True, slots=True)
class KernelReport(Report):
    """A finding in a kernel."""

    kernel: str = ""
    """Its name, without parameters; '' if the log does not say."""
    of_memory: bool = True
    """False for a race or a barrier: what these are found in may be a library's kernel, which knows what it does."""


def read_report(log: str, program: str, blocks: Mapping[int, Sequence[str]]) -> KernelReport | None:
    """The first finding in a log; None if it holds none that is understood.

    ``blocks`` names the tensors of so many bytes; ``program`` is the candidate's text, of which the line is quoted.
    """
    for head, body in _entries(log):
        found = _sentence(head, body, blocks)
        if found is None:
            continue
        sentence, place, of_memory = found
        detail = "\n".join(_FOLDER.sub("", line) for line in (head, *body))[:_LONGEST_DETAIL]
        kernel = place.function if place else ""
        return KernelReport(sentence, detail + _quoted(program, place), kernel, of_memory)
    return None


def errors_counted(log: str) -> int | None:
    """The errors of the summary with which a log ends; None if there is none, so that nothing is known."""
    found: list[tuple[str, str]] = _SUMMARY.findall(log)
    return sum(int(plain or race) for plain, race in found) if found else None


def trouble_in(log: str) -> str:
    """Why a tool did not watch anything, in its own words; '' if it says nothing of the kind."""
    lines = [match.group("text") or "" for line in log.splitlines() if (match := _MARGIN.match(line.rstrip()))]
    return next((line.removeprefix("Error: ").strip() for line in lines if _TROUBLE.match(line)), "")[:300]


@dataclass(frozen=True, slots=True)
class _Place:
    function: str
    file: str
    line: int

    def __str__(self) -> str:
        where = f", {self.file}:{self.line}" if self.file else ""
        return f"in kernel {self.function}{where}"


def _entries(log: str) -> Iterator[tuple[str, list[str]]]:
    """What begins at the margin, each with what is indented below it; lines of a backtrace are left out."""
    head, body = "", list[str]()
    for line in log.splitlines():
        match = _MARGIN.match(line.rstrip())
        if match is None:
            continue
        text = match.group("text") or ""
        if text.startswith(" "):
            text = text.strip()
            if text.startswith(("in ", "of size ")) and body and not _BACKTRACE.match(text):
                body[-1] += f" {text}"  # A long line goes on.
            elif not _BACKTRACE.match(text):
                body.append(text)
            continue
        if head:
            yield head, body
        head, body = text.strip(), []
    if head:
        yield head, body


def _sentence(
    head: str, body: Sequence[str], blocks: Mapping[int, Sequence[str]]
) -> tuple[str, _Place | None, bool] | None:
    """A finding in words, where it is, and whether it is about memory; None if the entry is no finding."""
    places = [place for line in body if (place := _place(line)) is not None]
    first = places[0] if places else None
    where = f", {first}" if first else ""
    if invalid := _INVALID.match(head):
        space, verb, size = invalid.group(1).lower(), invalid.group(2).lower(), invalid.group(3).replace(",", "")
        who = next((f", thread {m[1]} of block {m[2]}" for line in body if (m := _THREAD.match(line))), "")
        said = f"it {_VERBS[verb]} {size} bytes of {space} memory {_offence(body, blocks)}{where}{who}"
        return said, first, True
    if race := _RACE.match(head):
        accesses = [race.group("first") or "", *body]
        named = [match for text in accesses if (match := _ACCESS.match(text))]
        ends = [(match["what"].lower(), _place(match["place"])) for match in named]
        between = " and ".join(f"a {what} {place}" if place else f"a {what}" for what, place in ends[:2])
        kind = f" ({race.group('kind')})" if race.group("kind") else ""
        said = f"threads of a block race for shared memory{kind}: {between or 'no barrier lies between their accesses'}"
        return said, next((place for _, place in ends if place), first), False
    if barrier := _BARRIER.match(head):
        said = f"threads of a block do not meet at a barrier: {barrier.group(1).rstrip('. ') or 'no reason given'}"
        return said + where, first, False
    if _OTHER_MEMORY.match(head):
        return f"its kernel goes wrong with memory: {head.rstrip('.')}{where}", first, True
    return None


def _offence(body: Sequence[str], blocks: Mapping[int, Sequence[str]]) -> str:
    text = "\n".join(body)
    if "misaligned" in text:
        return "at an address that is misaligned"
    nearest = _NEAREST.search(text)
    if nearest is None:
        return "that is out of bounds"
    distance, side, size = int(nearest[1].replace(",", "")), nearest[2], int(nearest[3].replace(",", ""))
    return (
        f"past the end of {block_in_words(size, blocks)}, at byte {max(0, distance - 1)} behind it" if side == "after"
        else f"before the start of {block_in_words(size, blocks)}, at byte {distance} in front of it"
    )  # fmt: skip


def _place(line: str) -> _Place | None:
    match = _PLACE.match(line)
    if match is None:
        return None
    function = match["function"] or match["older_function"]
    file, number = match["file"] or match["older_file"] or "", match["line"] or match["older_line"] or "0"
    return _Place(_without_parameters(function)[:_LONGEST_NAME], file.rpartition("/")[2], int(number))


def _without_parameters(function: str) -> str:
    """'void add<(int)4>(float *)' -> 'add<(int)4>': parameters begin at the last bracket that is outside of others."""
    depth = 0
    for index in range(len(function) - 1, -1, -1):
        depth += (function[index] in ")>") - (function[index] in "(<")
        if depth == 0 and function[index] == "(":
            function = function[:index]
            break
        if depth == 0 and function[index] == ">":
            break
    return function.removeprefix("void ").strip()


def _quoted(program: str, place: _Place | None) -> str:
    """The line of the candidate's own file; C++ within it has lines of its own, which nothing here can find."""
    if place is None or place.file != CANDIDATE_FILE:
        return ""
    lines = program.splitlines()
    return f"\n{place.file}:{place.line}: {lines[place.line - 1].strip()}" if 0 < place.line <= len(lines) else ""
