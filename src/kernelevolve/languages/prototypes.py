"""Prototypes: the C functions or kernels that a source defines, read from its text, so that calls can be checked."""

from __future__ import annotations

import re
from dataclasses import dataclass

_COMMENT = re.compile(r"//[^\n]*|/\*.*?\*/", re.DOTALL)
_NOISE = re.compile(r"\b(const|volatile|restrict|__restrict__|__restrict|struct|register|__grid_constant__)\b")

INTEGERS = {
    "int": 4, "unsigned": 4, "unsigned int": 4, "int32_t": 4, "uint32_t": 4, "long": 8, "unsigned long": 8,
    "long long": 8, "unsigned long long": 8, "int64_t": 8, "uint64_t": 8, "size_t": 8, "bool": 1, "char": 1,
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Parameter:
    """One parameter: 'pointer', 'float', 'double', or the name of an integer type."""

    name: str
    kind: str


def functions(source: str, marker: str) -> dict[str, tuple[Parameter, ...]]:
    """Name -> parameters of every function that follows ``marker`` (a regular expression), e.g. ``extern "C" void``."""
    text = _COMMENT.sub(" ", source)
    found = {}
    for match in re.finditer(marker + r"\s*(?:__launch_bounds__\s*\([^)]*\)\s*)?([A-Za-z_]\w*)\s*\(", text):
        depth, end = 1, match.end()
        while depth and end < len(text):
            depth += {"(": 1, ")": -1}.get(text[end], 0)
            end += 1
        inner = text[match.end() : end - 1].strip()
        parts = [] if inner in ("", "void") else inner.split(",")
        found[match.group(1)] = tuple(_parameter(part) for part in parts)
    return found


def _parameter(text: str) -> Parameter:
    text = _NOISE.sub(" ", text).strip()
    if "*" in text or "[" in text:
        name = re.search(r"([A-Za-z_]\w*)\s*(?:\[\s*\])?$", text)
        return Parameter(name.group(1) if name else "", "pointer")
    words = text.split()
    kind = " ".join(words[:-1]) if len(words) > 1 else words[0]
    kind = " ".join(word for word in kind.split() if word != "signed")
    if kind not in INTEGERS and kind not in ("float", "double"):
        raise TypeError(f"parameter {text!r}: only pointers, integers, float and double can be passed")
    return Parameter(words[-1], kind)
