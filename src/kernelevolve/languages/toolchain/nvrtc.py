"""NVRTC through ctypes: CUDA C++ to a cubin inside this process, in a few hundredths of a second.

Functions as in the NVRTC documentation, https://docs.nvidia.com/cuda/nvrtc/. It needs neither a GPU nor a driver.
"""

from __future__ import annotations

import contextlib
import ctypes
from collections.abc import Callable, Sequence
from functools import lru_cache

from kernelevolve.errors import MissingTarget
from kernelevolve.languages.build_cache import BuildError
from kernelevolve.languages.toolchain import cuda_toolkit

_INVALID_OPTION = 5
_INTEGERS = {
    f"{sign}int{bits}_t": f"{'unsigned' if sign else 'signed'} {base}"
    for base, bits in (("char", 8), ("short", 16), ("int", 32), ("long long", 64))
    for sign in ("", "u")
}
_FLOATS = {"INFINITY": "__int_as_float(0x7f800000)", "NAN": "__int_as_float(0x7fffffff)"}
_HEADERS = {
    "stdint.h": "#pragma once\n"
    + "".join(f"typedef {base} {name};\n" for name, base in _INTEGERS.items())
    + "".join(f"#ifndef {name}\n#define {name} {value}\n#endif\n" for name, value in _FLOATS.items()),
    "cstdint": '#pragma once\n#include "stdint.h"\nnamespace std {\n'
    + "".join(f"using ::{name};\n" for name in _INTEGERS)
    + "}\n",
}
"""NVRTC has no C library: these two headers are given to every program, and the first is included before it. So is what
math.h defines under nvcc: a kernel that builds with one builds with the other."""


@lru_cache(maxsize=1)
def library() -> ctypes.CDLL | None:
    """libnvrtc from a wheel or a toolkit; None if there is none that can be loaded."""
    for path in cuda_toolkit.libraries("libnvrtc.so*"):
        for builtins in sorted(path.parent.glob("libnvrtc-builtins.so*")):
            # NVRTC opens it by its bare name, which is found only if it is loaded already.
            with contextlib.suppress(OSError):
                ctypes.CDLL(str(builtins))
        with contextlib.suppress(OSError):
            return ctypes.CDLL(str(path))
    with contextlib.suppress(OSError):
        return ctypes.CDLL("libnvrtc.so")
    return None


def version() -> str | None:
    """'13.0' and the like; None without NVRTC."""
    nvrtc = library()
    if nvrtc is None:
        return None
    major, minor = ctypes.c_int(), ctypes.c_int()
    nvrtc.nvrtcVersion(ctypes.byref(major), ctypes.byref(minor))
    return f"{major.value}.{minor.value}"


def compile_cubin(source: str, arch: str, flags: Sequence[str] = ()) -> tuple[bytes, str]:
    """The cubin of a CUDA source for an architecture such as 'sm_90a', and the compiler's log (with ptxas -v).

    Raises BuildError with the compiler's words, MissingTarget without NVRTC.
    """
    nvrtc = library()
    if nvrtc is None:
        raise MissingTarget("there is no NVRTC", fix="pip install nvidia-cuda-nvrtc")
    options = [
        f"--gpu-architecture={arch}", "--std=c++17", "--ptxas-options=-v", "-include=stdint.h",
        *(f"--include-path={path}" for path in cuda_toolkit.include_directories()), *flags,
    ]  # fmt: skip
    try:
        # NVRTC keeps results of its own where there is a driver, and then does not say what ptxas said.
        return _compile(nvrtc, source, [*options, "--no-cache"])
    except _UnknownOption:  # of an NVRTC that keeps nothing, or one of ``flags``
        return _compile(nvrtc, source, options)


class _UnknownOption(BuildError):
    """NVRTC does not know an option."""


def _compile(nvrtc: ctypes.CDLL, source: str, options: Sequence[str]) -> tuple[bytes, str]:
    program = ctypes.c_void_p()
    _check(
        nvrtc, "nvrtcCreateProgram", ctypes.byref(program), source.encode(), b"kernel.cu", len(_HEADERS),
        _strings(list(_HEADERS.values())), _strings(list(_HEADERS)),
    )  # fmt: skip
    try:
        status = nvrtc.nvrtcCompileProgram(program, len(options), _strings(options))
        log = _read(nvrtc, "nvrtcGetProgramLog", program).rstrip(b"\0").decode(errors="replace")
        if status != 0:
            refusal = _UnknownOption if status == _INVALID_OPTION else BuildError
            raise refusal(log.strip() or f"error: {_message(nvrtc, status)}", ["nvrtc", *options])
        return _read(nvrtc, "nvrtcGetCUBIN", program), log
    finally:
        nvrtc.nvrtcDestroyProgram(ctypes.byref(program))


def _strings(texts: Sequence[str]) -> ctypes.Array[ctypes.c_char_p]:
    return (ctypes.c_char_p * len(texts))(*(text.encode() for text in texts))


def _read(nvrtc: ctypes.CDLL, name: str, program: ctypes.c_void_p) -> bytes:
    """The bytes that a pair of functions ``<name>Size`` and ``<name>`` gives."""
    size = ctypes.c_size_t()
    _check(nvrtc, f"{name}Size", program, ctypes.byref(size))
    data = ctypes.create_string_buffer(size.value)
    _check(nvrtc, name, program, data)
    return data.raw


def _check(nvrtc: ctypes.CDLL, name: str, *arguments: object) -> None:
    function: Callable[..., int] = nvrtc[name]
    status = function(*arguments)
    if status != 0:
        raise BuildError(f"error: {name}: {_message(nvrtc, status)}", ["nvrtc"])


def _message(nvrtc: ctypes.CDLL, status: int) -> str:
    nvrtc.nvrtcGetErrorString.restype = ctypes.c_char_p
    return bytes(nvrtc.nvrtcGetErrorString(status)).decode()
