"""CUDA C++ for NVIDIA GPUs, without torch's headers: NVRTC (0.1 s a build) or nvcc, launched on torch's stream.

A candidate calls ``build(source)`` on a text with ``extern "C" __global__`` kernels and launches them by name;
``arguments.py`` says what each parameter takes. ``int64_t`` and its like, INFINITY and NAN need no include;
``cuda_fp16.h``, ``cuda_bf16.h`` and ``mma.h`` are found in the wheels or the toolkit. Building needs no GPU.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from types import MappingProxyType
from typing import Any

from kernelevolve.errors import MissingTarget
from kernelevolve.languages.arguments import Signature, c_type
from kernelevolve.languages.build_cache import BuildError, build_log, cached_build, run_compiler
from kernelevolve.languages.language import Availability, imports, inline_sources
from kernelevolve.languages.prototypes import Prototype, read_prototypes
from kernelevolve.languages.toolchain import cuda_driver, cuda_toolkit, nvrtc
from kernelevolve.languages.toolchain.resources import KernelResources, read_ptxas

_ALWAYS_ALLOWED_SHARED = 48 << 10
COMPILE_ONLY_ARCHITECTURE = "sm_90a"


def architecture() -> str:
    """'sm_90a' and the like of torch's current device; COMPILE_ONLY_ARCHITECTURE where there is none."""
    import torch

    if not torch.cuda.is_available():
        return COMPILE_ONLY_ARCHITECTURE
    major, minor = torch.cuda.get_device_capability()
    return f"sm_{major}{minor}" + ("a" if major >= 9 else "")


class Kernel:
    """One kernel of a module; loaded on a device when it is first launched there."""

    def __init__(self, module: CudaModule, prototype: Prototype) -> None:
        self.name = prototype.name
        self._module = module
        self._signature = Signature(prototype, "cuda")
        self._cells = cuda_driver.Cells(self._signature.types)
        self._functions: dict[int, cuda_driver.Handle] = {}
        self._allowed: dict[int, int] = {}

    def launch(
        self, grid: int | Sequence[int], block: int | Sequence[int], arguments: Sequence[Any], *, shared: int = 0
    ) -> None:
        """Launch on torch's current device and stream; returns at once.

        ``grid`` (blocks) and ``block`` (threads) have one to three sizes, x first; ``shared`` is dynamic shared memory
        per block in bytes. Raises TypeError if the arguments do not fit the prototype, RuntimeError if the driver
        refuses the launch, MissingTarget without a GPU.
        """
        import torch

        self._cells.fill(self._signature.convert(arguments))
        if not self._functions and not torch.cuda.is_available():
            raise MissingTarget("there is no NVIDIA GPU to launch a kernel on", fix="compile only, or use --target cpu")
        device = torch.cuda.current_device()
        # As torch's compiler and Triton do it: the public way makes a Stream object, which takes longer than a launch.
        stream = torch._C._cuda_getCurrentRawStream(device)
        function = self._function(device)
        if shared > self._allowed.get(device, _ALWAYS_ALLOWED_SHARED):
            cuda_driver.allow_shared_memory(function, shared)
            self._allowed[device] = shared
        cuda_driver.launch(
            function, _three_sizes(grid), _three_sizes(block), self._cells, shared=shared, stream=stream, device=device
        )

    def _function(self, device: int) -> cuda_driver.Handle:
        if device not in self._functions:
            self._functions[device] = cuda_driver.get_function(self._module.loaded(device), self.name)
        return self._functions[device]


def _three_sizes(sizes: int | Sequence[int]) -> tuple[int, int, int]:
    x, y, z = (*((sizes,) if isinstance(sizes, int) else sizes), 1, 1)[:3]
    return x, y, z


class CudaModule:
    """A cubin with its kernels. ``path`` is the file."""

    def __init__(self, path: Path, prototypes: Mapping[str, Prototype]) -> None:
        self.path = path
        self._kernels = {name: Kernel(self, prototype) for name, prototype in prototypes.items()}
        self._modules: dict[int, cuda_driver.Handle] = {}

    def kernel(self, name: str) -> Kernel:
        """The kernel of that name. Raises KeyError with the known names if there is none."""
        if name not in self._kernels:
            raise KeyError(f"the CUDA source has no kernel {name!r}, only {', '.join(self._kernels)}")
        return self._kernels[name]

    @property
    def resources(self) -> dict[str, KernelResources]:
        """Kernel name -> registers, spills and static shared memory, as ptxas reported them."""
        return read_ptxas(build_log(self.path))

    def loaded(self, device: int) -> cuda_driver.Handle:
        """The driver's module on a device."""
        if device not in self._modules:
            self._modules[device] = cuda_driver.load_module(self.path.read_bytes(), device)
        return self._modules[device]


def build(source: str, *, flags: Sequence[str] = (), arch: str | None = None) -> CudaModule:
    """Compile a CUDA source to a cubin for ``arch`` ('sm_90a'; the current device's by default).

    ``flags`` are for NVRTC and nvcc alike, e.g. '--use_fast_math' or '-lineinfo'. Raises BuildError with the compiler's
    words, or if there is no kernel; MissingTarget if neither compiler is here.
    """
    try:
        prototypes = read_prototypes(source, kernels=True)
        for prototype in prototypes.values():
            for parameter in prototype.parameters:
                c_type(parameter)
    except ValueError as error:
        raise BuildError(f"error: {error}") from None
    if not prototypes:
        raise BuildError('error: the source has no kernel; declare one as extern "C" __global__ void name(...)')
    target = arch or architecture()
    toolchain = _toolchain()

    def make(path: Path) -> str:
        if toolchain.startswith("NVRTC"):
            cubin, log = nvrtc.compile_cubin(source, target, flags)
            path.write_bytes(cubin)
            return log
        return _nvcc(source, target, flags, path)

    inputs = {"source": source, "flags": list(flags), "arch": target, "with": toolchain}
    return CudaModule(cached_build(inputs, ".cubin", make), prototypes)


@lru_cache(maxsize=1)
def _toolchain() -> str:
    """'NVRTC 13.0' or the release line of nvcc. Raises MissingTarget if neither is here."""
    version = nvrtc.version()
    if version is not None:
        return f"NVRTC {version}"
    compiler = cuda_toolkit.nvcc()
    if compiler is None:
        raise MissingTarget("there is neither NVRTC nor nvcc", fix="pip install nvidia-cuda-nvrtc, or install CUDA")
    return next(line for line in run_compiler([str(compiler), "--version"]).splitlines() if "release" in line)


def _nvcc(source: str, arch: str, flags: Sequence[str], path: Path) -> str:
    (path.parent / "kernel.cu").write_text(source)
    number = arch.removeprefix("sm_")
    target = f"-gencode=arch=compute_{number},code=sm_{number}"
    command = [
        str(cuda_toolkit.nvcc()),
        target,
        "-O3",
        "-std=c++17",
        "-cubin",
        "-include",
        "cstdint",
        "-Xptxas",
        "-v",
        *flags,
    ]
    return run_compiler([*command, "kernel.cu", "-o", path.name], path.parent)


class Cuda:
    """CUDA C++ candidates."""

    name = "cuda"
    targets = frozenset({"nvidia"})
    limits: Mapping[str, str] = MappingProxyType({})

    def availability(self) -> Availability:
        """Whether a CUDA compiler is here; which one."""
        try:
            return Availability(ok=True, version=_toolchain())
        except MissingTarget as error:
            return Availability(ok=False, missing=error.problem.removeprefix("there is "), fix=error.fix)

    def matches(self, source: str) -> bool:
        """True if it builds CUDA C++, through this module or through torch's ``load_inline``."""
        return "kernelevolve.languages.cuda" in imports(source) or "cuda_sources" in inline_sources(source)


LANGUAGE = Cuda()
