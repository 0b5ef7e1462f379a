"""C++ for the CPU: OpenMP and SIMD, a plain C ABI, no torch headers (0.3 to 1 s a build instead of 40).

A candidate calls ``build(source)`` on a text whose entry points are ``extern "C" void name(...)`` functions. Their
prototypes say how arguments are passed: pointers take tensors (or ``None``), integers and floats take Python numbers.
"""

from __future__ import annotations

import ctypes
import os
import platform
import shutil
from collections.abc import Callable, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

from kernelevolve.languages import prototypes
from kernelevolve.languages.build_cache import BuildError, cached_build, run_compiler
from kernelevolve.languages.language import Availability

INCLUDE = Path(__file__).parent / "include"
FLAGS = (
    "-O3", "-march=native", "-std=c++20", "-fopenmp", "-shared", "-fPIC", "-fno-math-errno", "-fno-trapping-math",
    "-ffp-contract=fast", "-fno-semantic-interposition", "-mprefer-vector-width=512", "-s", f"-I{INCLUDE}",
)  # fmt: skip
"""No -ffast-math: it lets the compiler assume that infinities and NaN do not occur, which masks are made of. With -s
equal sources give equal files: the symbol table would hold the random name of the text that was compiled."""
_MARKER = r'extern\s*"C"\s*(?:__attribute__\s*\(\([^)]*\)\)\s*)?void'
_TYPES: dict[str, Any] = {"float": ctypes.c_float, "double": ctypes.c_double, "pointer": ctypes.c_void_p}


@lru_cache(maxsize=1)
def compiler() -> str | None:
    """The C++ compiler: $CXX, else g++, else clang++; None if there is none."""
    for name in (os.environ.get("CXX"), "g++", "clang++"):
        if name and shutil.which(name):
            return name
    return None


class CppModule:
    """A loaded shared object; ``module.name(tensor, 3, …)`` calls an entry point."""

    def __init__(self, path: Path, signatures: dict[str, tuple[prototypes.Parameter, ...]]) -> None:
        self.path = path
        library = ctypes.CDLL(str(path))
        for name, parameters in signatures.items():
            setattr(self, name, _entry(library, name, parameters))

    def __getattr__(self, name: str) -> Callable[..., None]:
        raise AttributeError(f'the source has no entry point {name!r}; declare it extern "C" void {name}(...)')


def _entry(library: ctypes.CDLL, name: str, parameters: tuple[prototypes.Parameter, ...]) -> Callable[..., None]:
    function = getattr(library, name)
    function.restype = None
    function.argtypes = [_ctype(p.kind) for p in parameters]
    count = len(parameters)
    pointers = tuple(i for i, p in enumerate(parameters) if p.kind == "pointer")

    def call(*arguments: Any) -> None:
        if len(arguments) != count:
            raise TypeError(f"{name} takes {count} arguments, {len(arguments)} were given")
        values = list(arguments)
        for i in pointers:
            value = values[i]
            if value is not None:
                values[i] = value.data_ptr()
        function(*values)

    call.__name__ = name
    return call


def _ctype(kind: str) -> Any:
    if kind in _TYPES:
        return _TYPES[kind]
    return {1: ctypes.c_bool, 4: ctypes.c_int32, 8: ctypes.c_int64}[prototypes.INTEGERS[kind]]


def build(source: str, *, flags: Sequence[str] = ()) -> CppModule:
    """Compile and load a C++ source.

    Raises BuildError with the compiler's words, or if the source has no ``extern "C" void`` entry point.
    """
    try:
        signatures = prototypes.functions(source, _MARKER)
    except TypeError as error:
        raise BuildError(f"error: {error}") from None
    if not signatures:
        raise BuildError('error: the source has no entry point; declare one as extern "C" void name(...)')
    found = compiler()
    if found is None:
        raise BuildError("error: there is no C++ compiler; install the package g++")
    options = [*FLAGS, *flags]
    headers = [path.read_text() for path in sorted(INCLUDE.glob("*.h"))]

    def make(path: Path) -> None:
        text = path.with_suffix(".cpp")
        text.write_text(source)
        try:
            run_compiler([found, *options, str(text), "-o", str(path)])
        finally:
            text.unlink()

    inputs = {"source": source, "flags": options, "headers": headers, "compiler": found, "cpu": platform.processor()}
    return CppModule(cached_build(inputs, ".so", make), signatures)


class Cpp:
    """C++ candidates."""

    name = "cpp"
    targets = frozenset({"cpu"})

    def availability(self) -> Availability:
        found = compiler()
        if found is None:
            return Availability(ok=False, missing="no C++ compiler", fix="apt-get install g++")
        return Availability(ok=True, version=run_compiler([found, "--version"]).splitlines()[0])

    def matches(self, source: str) -> bool:
        return "languages.cpp" in source or "languages import cpp" in source


LANGUAGE = Cpp()
