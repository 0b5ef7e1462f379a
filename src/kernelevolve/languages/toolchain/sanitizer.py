"""AddressSanitizer and UndefinedBehaviorSanitizer of g++: how a process is started so that C++ it builds is watched.

The runtime must be in the process before anything else is, so it is preloaded; ``languages.cpp.build`` then adds
``FLAGS``. https://gcc.gnu.org/onlinedocs/gcc/Instrumentation-Options.html
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path
from types import MappingProxyType

from kernelevolve.languages.build_cache import BuildError, run_compiler

VARIABLE = "KERNELEVOLVE_SANITIZE"
"""Set to 1 in a process whose C++ builds are to be watched."""
EXIT_CODE = 97
"""With which a process ends after a finding."""
FLAGS: tuple[str, ...] = (
    "-fsanitize=address,undefined", "-fno-sanitize-recover=all", "-fno-omit-frame-pointer", "-g1",
    "-fno-sanitize=vptr,pointer-overflow,nonnull-attribute",
)  # fmt: skip
"""They come last, so that no flag of a candidate switches them off. Three checks are left out because honest programs
fail them on empty tensors, whose address is 0: adding to it or handing it to memcpy harms nobody if nothing is copied.
An access through such an address is found all the same."""
_ASAN_OPTIONS = {
    "exitcode": EXIT_CODE,
    "detect_leaks": 0,  # Python and torch hold on to much until the end.
    "allocator_may_return_null": 1,  # Too large a request raises MemoryError, as it does without a sanitizer.
    "quarantine_size_mb": 64,
    "detect_odr_violation": 0,  # A program may load two builds of one source.
    "alloc_dealloc_mismatch": 0,  # Libraries that nobody here compiled do this.
    "verify_asan_link_order": 0,
    "color": "never",
}
_UBSAN_OPTIONS = {"exitcode": EXIT_CODE, "print_stacktrace": 1, "color": "never"}


@lru_cache(maxsize=1)
def runtime(compiler: str) -> Path | None:
    """The library to preload for what this compiler builds; None if it has none, as clang++ under this name."""
    try:
        found = Path(run_compiler([compiler, "-print-file-name=libasan.so"]).strip())
    except BuildError:
        return None
    return found.resolve() if found.is_absolute() and found.exists() else None


def environment(library: Path) -> Mapping[str, str]:
    """Variables for the start of a process in which C++ is to be watched."""
    return MappingProxyType(
        {
            "LD_PRELOAD": str(library),
            "ASAN_OPTIONS": _joined(_ASAN_OPTIONS),
            "UBSAN_OPTIONS": _joined(_UBSAN_OPTIONS),
            VARIABLE: "1",
        }
    )


CHILDREN: Mapping[str, str] = MappingProxyType({"LD_PRELOAD": ""})
"""Variables to set once such a process runs, so that the compilers it starts are not watched too."""


def build_flags() -> tuple[str, ...]:
    """What a C++ build in this process gets in addition."""
    return FLAGS if os.environ.get(VARIABLE) == "1" else ()


def _joined(options: Mapping[str, object]) -> str:
    return ":".join(f"{name}={value}" for name, value in options.items())
