"""C++ for the CPU: OpenMP and SIMD behind a plain C interface, without torch's headers (0.1 to 1 s a build, not 40).

A candidate calls ``build(source)`` on a text with ``extern "C"`` functions and calls them by name on the module it
gets; ``arguments.py`` says what each parameter takes. ``#include "ke_math.h"`` gives elementary functions that
vectorise and conversions of 16-bit floats.
"""

from __future__ import annotations

import ctypes
import os
import platform
import shutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from types import MappingProxyType
from typing import Any, TypeAlias

from kernelevolve.errors import MissingTarget
from kernelevolve.hashing import digest_bytes
from kernelevolve.languages.arguments import Signature, c_type
from kernelevolve.languages.build_cache import BuildError, cached_build, run_compiler
from kernelevolve.languages.language import Availability, imports, inline_sources
from kernelevolve.languages.prototypes import Prototype, read_prototypes
from kernelevolve.languages.toolchain import sanitizer

SOURCE_FILE = "kernel.cpp"
"""The name under which compilers and sanitizers speak of a source."""
INCLUDE = Path(__file__).parent / "include"
FLAGS: tuple[str, ...] = (
    "-O3", "-march=native", "-std=c++20", "-fopenmp", "-shared", "-fPIC", "-fno-semantic-interposition",
    "-fno-math-errno", "-fno-trapping-math", "-ffp-contract=fast",
)  # fmt: skip
"""What every build gets. The last three let loops with sqrt, conditions and products with sums vectorise, and change no
result that a kernel can observe. There is no -ffast-math: it lets the compiler assume that infinities and NaN do not
occur, which masks are made of. Sums are reassociated where the source says so: ``#pragma omp simd reduction``."""
if platform.machine() in ("x86_64", "AMD64"):
    FLAGS += ("-mprefer-vector-width=512",)
_PROCESS_WIDE = ("-ffast-math", "-Ofast", "-funsafe-math-optimizations")


@lru_cache(maxsize=1)
def compiler() -> str | None:
    """Path of the C++ compiler: $CXX, else g++, else clang++; None if there is none."""
    candidates = (os.environ.get("CXX"), "g++", "clang++")
    return next((found for name in candidates if name and (found := shutil.which(name))), None)


@lru_cache(maxsize=1)
def _environment() -> dict[str, str]:
    """What a build depends on besides source and flags: compiler, processor (-march=native) and our headers."""
    found = _required_compiler()
    information = Path("/proc/cpuinfo").read_text() if Path("/proc/cpuinfo").exists() else platform.processor()
    processor = {line for line in information.splitlines() if line.startswith(("model name", "flags", "Features"))}
    headers = "".join(digest_bytes(path.read_bytes()) for path in sorted(INCLUDE.glob("*.h")))
    return {
        "compiler": run_compiler([found, "--version"]),
        "processor": digest_bytes("\n".join(sorted(processor)).encode()),
        "headers": headers,
    }


def _required_compiler() -> str:
    found = compiler()
    if found is None:
        raise MissingTarget("there is no C++ compiler", fix="install the Debian package g++, or set CXX")
    return found


class CppModule:
    """A loaded shared object; ``module.name(tensor, 3, 0.5)`` calls one of its functions, whatever that is called.

    A call releases the GIL and returns the function's result, if it has one. ``__file__`` is the shared object, as in
    Python's modules (no C function may have such a name); ``build_log`` of it is what the compiler said.
    """

    def __init__(self, path: Path, prototypes: dict[str, Prototype]) -> None:
        self.__file__ = path
        library = ctypes.CDLL(str(path))
        for name, prototype in prototypes.items():
            setattr(self, name, _bind(library, prototype))

    def __getattr__(self, name: str) -> Callable[..., Any]:
        known = ", ".join(sorted(vars(self).keys() - {"__file__"}))
        raise AttributeError(
            f"the C++ source has no function {name!r}, only {known}; "
            f'declare it extern "C" void {name}(...), outside macros'
        )


def _bind(library: ctypes.CDLL, prototype: Prototype) -> Callable[..., Any]:
    function = library[prototype.name]
    signature = Signature(prototype, "cpu")
    function.argtypes = signature.types
    function.restype = None if prototype.result.spelling == "void" else c_type(prototype.result)
    convert = signature.convert

    def call(*arguments: Any) -> Any:
        return function(*convert(arguments))

    call.__name__ = call.__qualname__ = prototype.name
    return call


@dataclass(frozen=True, slots=True)
class Built:
    """What one module was made of."""

    source: str
    flags: tuple[str, ...]
    """All that the compiler was given besides the file names, ``FLAGS`` included."""


Watcher: TypeAlias = Callable[[Built, Prototype, Callable[..., Any]], Callable[..., Any]]
_watcher: Watcher | None = None


def watch(watcher: Watcher) -> None:
    """Have every function that is built in this process from now on replaced by what ``watcher`` makes of it.

    For profilers, in a worker of their own: they see which sources a candidate builds and with what it calls them.
    """
    global _watcher
    _watcher = watcher


def build(source: str, *, flags: Sequence[str] = ()) -> CppModule:
    """Compile and load a C++ source; ``flags`` come after ``FLAGS`` and may override them.

    In a process that ``toolchain.sanitizer`` watches, the program is built to be watched as well.
    Raises BuildError with the compiler's words, or if there is no function to call; MissingTarget without a compiler.
    """
    for flag in flags:
        if flag in _PROCESS_WIDE:
            raise BuildError(
                f"error: the flag {flag} would make every program in this process flush subnormal numbers to zero; "
                "use -fno-signed-zeros, -fassociative-math and -freciprocal-math for what is wanted of it"
            )
    try:
        prototypes = read_prototypes(source)
        for prototype in prototypes.values():
            _check(prototype)
    except ValueError as error:
        raise BuildError(f"error: {error}") from None
    if not prototypes:
        raise BuildError('error: the source has no function to call; declare one as extern "C" void name(...)')
    found = _required_compiler()
    options = [*FLAGS, *flags, *sanitizer.build_flags()]

    def make(path: Path) -> str:
        # Compiled under fixed relative names, so that equal programs become equal files.
        (path.parent / SOURCE_FILE).write_text(source)
        return run_compiler([found, *options, f"-I{INCLUDE}", SOURCE_FILE, "-o", path.name], path.parent)

    path = cached_build({"source": source, "flags": options, **_environment()}, ".so", make)
    module = CppModule(path, prototypes)
    if _watcher is not None:
        built = Built(source, tuple(options))
        for name, prototype in prototypes.items():
            setattr(module, name, _watcher(built, prototype, getattr(module, name)))
    return module


def _check(prototype: Prototype) -> None:
    """Raises ValueError if a parameter or the result cannot be passed."""
    values = [*prototype.parameters, *([] if prototype.result.spelling == "void" else [prototype.result])]
    for value in values:
        try:
            c_type(value)
        except ValueError as error:
            raise ValueError(f"{prototype.name}: {error}; pass pointers, integers and floats only") from None


class Cpp:
    """C++ candidates."""

    name = "cpp"
    targets = frozenset({"cpu"})
    limits: Mapping[str, str] = MappingProxyType({})

    def availability(self) -> Availability:
        """Whether there is a compiler; its version."""
        found = compiler()
        if found is None:
            return Availability(ok=False, missing="a C++ compiler", fix="apt-get install g++")
        return Availability(ok=True, version=run_compiler([found, "--version"]).splitlines()[0])

    def matches(self, source: str) -> bool:
        """True if it builds C++, through this module or through torch's ``load_inline`` without CUDA sources."""
        inline = inline_sources(source)
        return "kernelevolve.languages.cpp" in imports(source) or (
            "cpp_sources" in inline and "cuda_sources" not in inline
        )


LANGUAGE = Cpp()
