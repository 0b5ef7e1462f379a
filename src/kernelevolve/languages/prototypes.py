"""Prototypes: the C functions and kernels that a source defines, read from its text, so that calls can be checked.

Understood is what a plain C interface is made of: ``extern "C"`` before a function or round several, pointers, integers
and floats by value. Macros are not expanded.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

_LITERALS = re.compile(r'//[^\n]*|/\*.*?\*/|"(?:\\.|[^"\\\n])*"', re.DOTALL)
_DIRECTIVE = re.compile(r"^[ \t]*#(?:\\\n|[^\n])*", re.MULTILINE)
_ATTRIBUTE = re.compile(
    r"(?:__attribute__|__launch_bounds__|__cluster_dims__|alignas)\s*\((?:[^()]|\((?:[^()]|\([^()]*\))*\))*\)"
    r"|\[\[[^\]]*\]\]"
)
_QUALIFIER = re.compile(
    r"\b(?:const|volatile|restrict|__restrict__|__restrict|struct|register|__grid_constant__|typename)\b|\bstd::"
)
_FUNCTION = re.compile(
    r"(?P<returns>.*?)\b(?P<name>[A-Za-z_]\w*)\s*\((?P<parameters>.*)\)\s*(?:noexcept)?\s*", re.DOTALL
)
_FIXED_WIDTH = re.compile(r"(u?)int(8|16|32|64)_t")
_WORDS = {"unsigned", "signed", "char", "short", "int", "long", "float", "double", "bool"}


@dataclass(frozen=True, slots=True)
class Parameter:
    """One parameter, or the result of a function."""

    name: str
    """Its name in the source, or '' if it has none."""
    type: str
    """'f32', 'f64', 'bool', 'i8' … 'u64', 'void', or any other name as it stands (without qualifiers)."""
    pointers: int = 0
    """How many stars."""

    @property
    def spelling(self) -> str:
        """How messages name the type."""
        return self.type + "*" * self.pointers


@dataclass(frozen=True, slots=True)
class Prototype:
    """One function or kernel with a plain C name."""

    name: str
    result: Parameter
    parameters: tuple[Parameter, ...]


def read_prototypes(source: str, *, kernels: bool = False) -> dict[str, Prototype]:
    """The ``extern "C"`` functions of a C++ or CUDA source by name; with ``kernels`` the ``__global__`` ones only.

    Raises ValueError, naming the function, if a parameter is none of pointer, integer and float.
    """
    text = _LITERALS.sub(lambda m: m.group() if m.group() == '"C"' else " ", source)
    text = _ATTRIBUTE.sub(" ", _DIRECTIVE.sub("", text))
    found: dict[str, Prototype] = {}
    for match in re.finditer(r'\bextern\s*"C"\s*(\{?)', text):
        headers = _headers(text, match.end()) if match.group(1) else _headers(text, match.end())[:1]
        for header in headers:
            if "static" in header.split() or kernels != ("__global__" in header.split()):
                continue
            function = _FUNCTION.fullmatch(header.replace("__global__", " ").replace("inline", " "))
            if function is not None:
                found[function["name"]] = _prototype(function["name"], function["returns"], function["parameters"])
    return found


def _headers(text: str, start: int) -> list[str]:
    """What stands before each body or semicolon from ``start`` to the brace that closes the scope."""
    headers, depth, parentheses, begin = [], 0, 0, start
    for at in range(start, len(text)):
        character = text[at]
        if character == "{":
            if depth == 0:
                headers.append(text[begin:at].strip())
            depth += 1
        elif character == "}":
            depth -= 1
            if depth < 0:
                break
            begin = at + 1
        elif depth == 0 and character in "()":
            parentheses += 1 if character == "(" else -1
        elif depth == 0 and parentheses == 0 and character == ";":
            headers.append(text[begin:at].strip())
            begin = at + 1
    return headers


def _prototype(name: str, returns: str, parameters: str) -> Prototype:
    inner = parameters.strip()
    parts = [] if inner in ("", "void") else inner.split(",")
    try:
        return Prototype(name, _parameter(returns, named=False), tuple(_parameter(p, named=True) for p in parts))
    except ValueError as error:
        raise ValueError(f"{name}: {error}; pass pointers, integers and floats only") from None


def _parameter(text: str, *, named: bool) -> Parameter:
    declaration = _QUALIFIER.sub(" ", text.partition("=")[0])
    pointers = declaration.count("*") + declaration.count("[")
    words = re.sub(r"\[[^\]]*\]|\*", " ", declaration).split()
    if not words or any(not re.fullmatch(r"[\w:]+", word) for word in words):
        raise ValueError(f"the parameter {' '.join(text.split())!r} cannot be passed")
    name = words.pop() if named and len(words) > 1 and words[-1] not in _WORDS else ""
    return Parameter(name, _canonical(words), pointers)


def _canonical(words: list[str]) -> str:
    """The short name of a type that C can spell in many ways."""
    kinds = set(words)
    if not kinds <= _WORDS:
        spelled = " ".join(words)
        fixed = _FIXED_WIDTH.fullmatch(spelled)
        if fixed is not None:
            return ("u" if fixed[1] else "i") + fixed[2]
        return {"size_t": "u64", "ptrdiff_t": "i64", "intptr_t": "i64", "uintptr_t": "u64"}.get(spelled, spelled)
    if "float" in kinds:
        return "f32"
    if "double" in kinds:
        return "f64"
    if "bool" in kinds:
        return "bool"
    width = 8 if "char" in kinds else 16 if "short" in kinds else 64 if "long" in kinds else 32
    return ("u" if "unsigned" in kinds else "i") + str(width)
