"""Trimming: what of a log, a source or a diff is worth its tokens, and how foreign text is shut in."""

from __future__ import annotations

import difflib
import re

_FENCE = re.compile(r"`{3,}")
_UNPRINTABLE = re.compile(
    r"[^\t\n\x20-\x7e\xa0-\u200a\u2010-\u2027\u202f-\u205f\u2070-\ud7ff\uf900-\ufdef\U00010000-\U000dffff]"
)
"""Control characters, and those that change the direction of text or are not seen."""
_TELLING = re.compile(
    r"\b(?:fatal )?error\b|undefined (?:reference|symbol)|\bError\b|Exception\b|^\s*File \"[^\"]*candidate|"
    r"Sanitizer|SIG[A-Z]+\b|ptxas|static assertion",
    re.IGNORECASE,
)
_NOISE = re.compile(r"^In file included from|^\s*from .*:\d+|required from|In instantiation of|note: candidate")
_WIDEST = 400
"""Characters of a line of a log or a diff."""
_BELOW = 2
"""Lines below a telling one that belong to it: the source line and the caret under the place."""


def fenced(text: str, language: str = "") -> str:
    """The text between fences that nothing inside it can close; characters that steer or hide are made visible."""
    clean = visible(text.replace("\r\n", "\n"))
    longest = max((len(run) for run in _FENCE.findall(clean)), default=2)
    fence = "`" * (longest + 1)
    return f"{fence}{language}\n{clean.rstrip()}\n{fence}"


def visible(text: str) -> str:
    """The text with every character that steers or hides written as its number."""
    return _UNPRINTABLE.sub(lambda found: f"\\u{ord(found.group()):04x}", text)


def trimmed_log(text: str, lines: int) -> tuple[str, int]:
    """What matters of a compiler log or traceback in at most ``lines`` lines, and how many lines were left out.

    Errors come with the lines that show their place; where nothing looks like an error the end of the log is kept.
    """
    everything = [_narrow(line.rstrip()) for line in text.strip().splitlines()]
    if len(everything) <= lines:
        return "\n".join(everything), 0
    wanted: set[int] = set()
    seen: set[str] = set()
    for number, line in enumerate(everything):
        said = line.partition("error")[2] or line
        if _NOISE.search(line) or not _TELLING.search(line) or said in seen:
            continue
        seen.add(said)
        block = set(range(number, min(number + 1 + _BELOW, len(everything))))
        if len(wanted | block) > lines:
            break
        wanted |= block
    if not wanted:
        wanted = set(range(len(everything) - lines, len(everything)))
    return "\n".join(everything[number] for number in sorted(wanted)), len(everything) - len(wanted)


def shortened(text: str, lines: int) -> str:
    """The beginning and the end of a text, with a line between that says how much is missing."""
    everything = text.splitlines()
    if len(everything) <= lines:
        return text
    head = lines * 2 // 3
    tail = max(1, lines - head)
    missing = len(everything) - head - tail
    return "\n".join([*everything[:head], f"[{missing} lines left out here]", *everything[-tail:]])


def changed(before: str, after: str, lines: int) -> str:
    """What turned one source into another, as a unified diff without context, shortened."""
    found = list(difflib.unified_diff(before.splitlines(), after.splitlines(), lineterm="", n=0))[2:]
    return shortened("\n".join(map(_narrow, found)), lines)


def _narrow(line: str) -> str:
    return line if len(line) <= _WIDEST else f"{line[:_WIDEST]} [{len(line) - _WIDEST} characters left out here]"
