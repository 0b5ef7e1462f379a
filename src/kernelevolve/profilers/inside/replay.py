"""A candidate's native calls once more, in a small program without Python, so that a slow tool can run them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path

from kernelevolve.languages import cpp
from kernelevolve.languages.build_cache import run_compiler
from kernelevolve.languages.prototypes import Parameter
from kernelevolve.profilers.inside.recording import Argument, NativeCall, Recording
from kernelevolve.profilers.inside.remarks import write_source

_C_TYPES = {
    "void": "void", "bool": "bool", "f32": "float", "f64": "double",
    **{f"{sign}{bits}": f"{'u' if sign == 'u' else ''}int{bits}_t" for sign in "iu" for bits in (8, 16, 32, 64)},
}  # fmt: skip
LIBRARY = "replayed-"
"""Beginning of the file name of a build's shared object."""
_HEAD = r"""
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <dlfcn.h>
static char* load(const char* name) {
  FILE* file = std::fopen(name, "rb");
  if (!file) std::exit(3);
  std::fseek(file, 0, SEEK_END);
  const size_t size = static_cast<size_t>(std::ftell(file));
  std::rewind(file);
  char* memory = static_cast<char*>(std::aligned_alloc(64, (size + 127) / 64 * 64));
  if (std::fread(memory, 1, size, file) != size) std::exit(3);
  std::fclose(file);
  return memory;
}
static void* find(const char* library, const char* name) {
  void* handle = dlopen(library, RTLD_NOW);
  if (!handle) { std::fprintf(stderr, "%s\n", dlerror()); std::exit(4); }
  void* symbol = dlsym(handle, name);
  if (!symbol) std::exit(5);
  return symbol;
}
"""


def driver_source(calls: Sequence[NativeCall]) -> str:
    """A C++ program that makes these calls in order, each on the memory as it was before that call."""
    body = []
    for call in calls:
        files = list(dict.fromkeys(argument.file for argument in call.arguments if argument.file))
        types = ", ".join(_c_type(argument.parameter) for argument in call.arguments)
        values = ", ".join(_value(argument, files) for argument in call.arguments)
        function = f'reinterpret_cast<{_c_type(call.prototype.result)} (*)({types})>(find("./{library(call.build)}", '
        body += ["  {", *(f'    char* m{i} = load("{name}");' for i, name in enumerate(files))]
        body += [f'    {function}"{call.prototype.name}"))({values});']
        body += [*(f"    std::free(m{i});" for i in range(len(files))), "  }"]
    return "\n".join([_HEAD, "int main() {", *body, "}", ""])


def library(build: int) -> str:
    """File name of a build's shared object."""
    return f"{LIBRARY}{build + 1}.so"


def _c_type(parameter: Parameter) -> str:
    return "void*" if parameter.pointers else _C_TYPES[parameter.type]


def _value(argument: Argument, files: list[str]) -> str:
    if argument.parameter.pointers:
        return f"m{files.index(argument.file)} + {argument.offset}" if argument.file else "nullptr"
    value = argument.value
    assert value is not None
    if isinstance(value, int):
        # Cast, because the least 64-bit number has no literal of its own.
        return f"static_cast<{_c_type(argument.parameter)}>({value % (1 << 64)}ull)"
    if math.isnan(value):
        return '__builtin_nan("")'
    return ("-" if value < 0 else "") + "__builtin_inf()" if math.isinf(value) else value.hex()


def make(recording: Recording, place: Path, drop: Sequence[str], add: Sequence[str]) -> Path:
    """The program, beside shared objects of the builds that the calls use; its path.

    Flags that begin with one of ``drop`` are left out, and ``add`` comes last. Raises BuildError.
    """
    compiler = str(cpp.compiler())
    for index in sorted({call.build for call in recording.calls}):
        built = recording.builds[index]
        flags = [flag for flag in built.flags if not flag.startswith(tuple(drop))]
        name = write_source(place, index, built.source)
        run_compiler([compiler, *flags, *add, f"-I{cpp.INCLUDE}", name, "-o", library(index)], place)
    (place / "replay.cpp").write_text(driver_source(recording.calls))
    run_compiler([compiler, "-O1", "-std=c++17", "replay.cpp", "-o", "replay", "-ldl"], place)
    return place / "replay"
