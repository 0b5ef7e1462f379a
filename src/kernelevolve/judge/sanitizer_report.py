"""What a sanitizer of g++ printed before it ended a worker, as one sentence and a trimmed report. Text is read only."""

from __future__ import annotations

import ast
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from kernelevolve.candidates.structure import parse
from kernelevolve.judge.named_blocks import block_in_words
from kernelevolve.languages.cpp import SOURCE_FILE

_ADDRESS = re.compile(r"ERROR: AddressSanitizer: ([\w-]+)")
_UNDEFINED = re.compile(r"^.*?([^\s/:]+):(\d+):\d+: runtime error: (.+)$", re.MULTILINE)
_ACCESS = re.compile(r"\b(READ|WRITE) of size (\d+)")
_PLACE = re.compile(r"is located (\d+) bytes (to the right of|after|to the left of|before|inside of) (\d+)-byte region")
_FRAME = re.compile(rf"#\d+ 0x[0-9a-f]+ in (.+?) (?:\S*/)?{re.escape(SOURCE_FILE)}:(\d+)")
_ANY_FRAME = re.compile(r"^\s*#\d+ ")
_FOLDER = re.compile(rf"\S*/(?={re.escape(SOURCE_FILE)}:)")
_END = re.compile(r"^(SUMMARY:|Shadow bytes around)", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Report:
    """A finding. ``detail`` is what the sanitizer said, without what lies outside the candidate's own source."""

    sentence: str
    detail: str


def read_report(output: str, program: str, blocks: Mapping[int, Sequence[str]]) -> Report:
    """The finding in what a worker printed. ``blocks`` names the tensors of so many bytes."""
    address = _ADDRESS.search(output)
    if address is not None:
        start = output.rfind("\n", 0, address.start()) + 1
        end = _END.search(output, address.end())
        text = _trimmed(output[start : end.start() if end else len(output)])
        return Report(_address_sentence(address.group(1), text, blocks), text + _quoted(program, text))
    undefined = _UNDEFINED.search(output)
    if undefined is not None:
        file, line, what = undefined.groups()
        text = _trimmed(output[undefined.start() :])
        sentence = f"its C++ does what is undefined: {what}, at {file}:{line}"
        return Report(sentence, text + (_line(program, int(line)) if file == SOURCE_FILE else ""))
    return Report("a sanitizer found an error in its C++, and its report was lost in what the program printed", output)


def _address_sentence(kind: str, text: str, blocks: Mapping[int, Sequence[str]]) -> str:
    access, place, frame = _ACCESS.search(text), _PLACE.search(text), _FRAME.search(text)
    verb = "touches memory wrongly"
    if access is not None:
        verb = f"{'reads' if access.group(1) == 'READ' else 'writes'} {access.group(2)} bytes"
    where = ""
    if place is not None:
        distance, side, size = int(place.group(1)), place.group(2), int(place.group(3))
        if side != "inside of":
            edge = "past the end" if side in ("to the right of", "after") else "before the start"
            where = f"{f' {distance} bytes' if distance else ''} {edge} of {block_in_words(size, blocks)}"
    source = f", at {SOURCE_FILE}:{frame.group(2)} in {frame.group(1)}" if frame is not None else ""
    return f"it {verb}{where}: {kind}{source}"


def _trimmed(text: str) -> str:
    """The report without what lies outside the candidate's own source."""
    lines = [line for line in text.splitlines() if not _ANY_FRAME.match(line) or SOURCE_FILE in line]
    return _FOLDER.sub("", "\n".join(lines)).strip("=\n ")


def _quoted(program: str, report: str) -> str:
    frame = _FRAME.search(report)
    return "" if frame is None else _line(program, int(frame.group(2)))


def _line(program: str, number: int) -> str:
    """A line of the one C++ source that a program holds as a string; '' if it holds several, or puts one together."""
    sources = [
        node.value
        for node in ast.walk(parse(program))
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and 'extern "C"' in node.value
    ]
    lines = sources[0].splitlines() if len(sources) == 1 else []
    return f"\n{SOURCE_FILE}:{number}: {lines[number - 1].strip()}" if 0 < number <= len(lines) else ""
