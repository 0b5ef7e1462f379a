"""CUDA C++ for NVIDIA GPUs through NVRTC (0.1 s a build) or nvcc, without torch headers; launched on torch's stream.

A candidate calls ``build(source)`` on a text whose kernels are ``extern "C" __global__ void name(...)``. Their prototypes
say how arguments are passed: pointers take tensors (or ``None``), integers and floats take Python numbers.
"""

from __future__ import annotations

import ctypes
import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

from kernelevolve.languages import prototypes
from kernelevolve.languages.build_cache import BuildError, cached_build, run_compiler
from kernelevolve.languages.language import Availability

_MARKER = r'extern\s*"C"\s*__global__\s*void'
_TYPES: dict[str, Any] = {"float": ctypes.c_float, "double": ctypes.c_double, "pointer": ctypes.c_void_p}
_DEFAULT_SHARED = 48 << 10


def architecture() -> str:
    """``sm_90a`` and the like for the current device; ``sm_90a`` where there is none (compile only)."""
    import torch

    if not torch.cuda.is_available():
        return "sm_90a"
    major, minor = torch.cuda.get_device_capability()
    return f"sm_{major}{minor}" + ("a" if major >= 9 else "")


@dataclass(frozen=True, slots=True)
class Kernel:
    """One loaded kernel."""

    name: str
    handle: Any
    parameters: tuple[prototypes.Parameter, ...]

    def launch(
        self, grid: tuple[int, ...], block: tuple[int, ...], arguments: Sequence[Any], *, shared: int = 0
    ) -> None:
        """Launch on torch's current stream; ``shared`` is dynamic shared memory in bytes.

        Raises TypeError if the arguments do not fit the prototype, RuntimeError if the driver refuses the launch.
        """
        import torch
        from cuda.bindings import driver

        if len(arguments) != len(self.parameters):
            raise TypeError(f"{self.name} takes {len(self.parameters)} arguments, {len(arguments)} were given")
        values = tuple(
            (a.data_ptr() if isinstance(a, torch.Tensor) else 0 if a is None else a) for a in arguments
        )
        types = tuple(_ctype(p.kind) for p in self.parameters)
        if shared > _DEFAULT_SHARED:
            attribute = driver.CUfunction_attribute.CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES
            _check(driver.cuFuncSetAttribute(self.handle, attribute, shared))
        x, y, z = (*grid, 1, 1, 1)[:3]
        bx, by, bz = (*block, 1, 1, 1)[:3]
        stream = torch.cuda.current_stream().cuda_stream
        _check(driver.cuLaunchKernel(self.handle, x, y, z, bx, by, bz, shared, stream, (values, types), 0))


class CudaModule:
    """A loaded cubin."""

    def __init__(self, path: Path, signatures: dict[str, tuple[prototypes.Parameter, ...]]) -> None:
        import torch
        from cuda.bindings import driver

        torch.cuda.current_stream()  # Makes the context that the driver calls below need.
        torch.zeros(1, device="cuda")
        self.path = path
        (module,) = _check(driver.cuModuleLoadData(path.read_bytes()))
        self._module = module
        self._signatures = signatures
        self._kernels: dict[str, Kernel] = {}

    def kernel(self, name: str) -> Kernel:
        """The kernel of that name; KeyError with the known names if there is none."""
        from cuda.bindings import driver

        if name not in self._kernels:
            if name not in self._signatures:
                raise KeyError(f"the source has no kernel {name!r}, only {', '.join(self._signatures)}")
            (handle,) = _check(driver.cuModuleGetFunction(self._module, name.encode()))
            self._kernels[name] = Kernel(name, handle, self._signatures[name])
        return self._kernels[name]


def build(source: str, *, flags: Sequence[str] = (), arch: str | None = None) -> CudaModule:
    """Compile and load a CUDA source. Raises BuildError with the compiler's words."""
    path, signatures = compile_cubin(source, flags=flags, arch=arch)
    return CudaModule(path, signatures)


def compile_cubin(
    source: str, *, flags: Sequence[str] = (), arch: str | None = None
) -> tuple[Path, dict[str, tuple[prototypes.Parameter, ...]]]:
    """Compile only: the cubin and the prototypes of its kernels; needs no GPU. Raises BuildError."""
    try:
        signatures = prototypes.functions(source, _MARKER)
    except TypeError as error:
        raise BuildError(f"error: {error}") from None
    if not signatures:
        raise BuildError('error: the source has no kernel; declare one as extern "C" __global__ void name(...)')
    target = arch or architecture()
    compiler = _compile_nvrtc if nvrtc_available() else _compile_nvcc

    def make(path: Path) -> None:
        path.write_bytes(compiler(source, target, flags))

    inputs = {"source": source, "flags": list(flags), "arch": target, "with": compiler.__name__}
    return cached_build(inputs, ".cubin", make), signatures


@lru_cache(maxsize=1)
def nvrtc_available() -> bool:
    """True if NVRTC can be loaded through cuda-bindings."""
    try:
        from cuda.bindings import nvrtc

        return bool(nvrtc.nvrtcVersion()[0] == nvrtc.nvrtcResult.NVRTC_SUCCESS)
    except Exception:  # It raises plain RuntimeError subclasses of its own if the library is not there.
        return False


def include_directories() -> list[Path]:
    """Where cuda_fp16.h and its like are: the toolkit, or the wheels that torch brings."""
    found = []
    nvcc = shutil.which("nvcc")
    if nvcc:
        found.append(Path(nvcc).resolve().parent.parent / "include")
    import torch

    wheels = Path(torch.__file__).parent.parent / "nvidia"
    found += sorted(wheels.glob("*/include")) if wheels.is_dir() else []
    return [path for path in found if (path / "cuda_fp16.h").exists()]


def _compile_nvrtc(source: str, arch: str, flags: Sequence[str]) -> bytes:
    from cuda.bindings import nvrtc

    options = [f"--gpu-architecture={arch}", "--std=c++17", *(f"-I{p}" for p in include_directories()), *flags]
    (program,) = _check(nvrtc.nvrtcCreateProgram(source.encode(), b"candidate.cu", 0, [], []))
    (status,) = nvrtc.nvrtcCompileProgram(program, len(options), [o.encode() for o in options])
    if status != nvrtc.nvrtcResult.NVRTC_SUCCESS:
        (size,) = _check(nvrtc.nvrtcGetProgramLogSize(program))
        log = b" " * size
        _check(nvrtc.nvrtcGetProgramLog(program, log))
        raise BuildError(log.decode(errors="replace").rstrip("\0 "), ["nvrtc", *options])
    (size,) = _check(nvrtc.nvrtcGetCUBINSize(program))
    cubin = b" " * size
    _check(nvrtc.nvrtcGetCUBIN(program, cubin))
    return cubin


def _compile_nvcc(source: str, arch: str, flags: Sequence[str]) -> bytes:
    import tempfile

    if shutil.which("nvcc") is None:
        raise BuildError("error: neither NVRTC nor nvcc is here; install cuda-bindings and nvidia-cuda-nvrtc, or CUDA")
    with tempfile.TemporaryDirectory() as place:
        text, cubin = Path(place) / "candidate.cu", Path(place) / "candidate.cubin"
        text.write_text(source)
        number = arch.removeprefix("sm_")
        target = f"-gencode=arch=compute_{number},code=sm_{number}"
        run_compiler(["nvcc", target, "-O3", "-std=c++17", "-cubin", *flags, str(text), "-o", str(cubin)])
        return cubin.read_bytes()


def _check(result: tuple[Any, ...]) -> tuple[Any, ...]:
    """The values of a driver or NVRTC call; RuntimeError if its status is not success."""
    status, *values = result
    if int(status) != 0:
        raise RuntimeError(f"CUDA refused: {status.name}")
    return tuple(values)


def _ctype(kind: str) -> Any:
    if kind in _TYPES:
        return _TYPES[kind]
    return {1: ctypes.c_bool, 4: ctypes.c_int32, 8: ctypes.c_int64}[prototypes.INTEGERS[kind]]


class Cuda:
    """CUDA C++ candidates."""

    name = "cuda"
    targets = frozenset({"nvidia"})

    def availability(self) -> Availability:
        if nvrtc_available():
            return Availability(ok=True, version="NVRTC")
        nvcc = shutil.which("nvcc")
        if nvcc:
            return Availability(ok=True, version=run_compiler([nvcc, "--version"]).splitlines()[-1])
        return Availability(
            ok=False, missing="NVRTC or nvcc", fix="pip install cuda-bindings nvidia-cuda-nvrtc, or install CUDA"
        )

    def matches(self, source: str) -> bool:
        return "languages.cuda" in source or "languages import cuda" in source


LANGUAGE = Cuda()
