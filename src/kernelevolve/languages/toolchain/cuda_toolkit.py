"""Where the parts of CUDA are: the wheels beside torch, the wheel of Triton, or an installed toolkit."""

from __future__ import annotations

import os
import shutil
from functools import lru_cache
from importlib.util import find_spec
from pathlib import Path


@lru_cache(maxsize=1)
def roots() -> tuple[Path, ...]:
    """Directories that may have ``lib`` and ``include``: wheels first, since they fit the torch that is installed."""
    found: list[Path] = []
    torch = find_spec("torch")
    if torch is not None and torch.origin is not None:
        found += sorted((Path(torch.origin).parent.parent / "nvidia").glob("*"), reverse=True)
    compiler = nvcc()
    given = (os.environ.get("CUDA_HOME"), os.environ.get("CUDA_PATH"), "/usr/local/cuda")
    found += [Path(path) for path in given if path]
    if compiler is not None:
        found.append(compiler.resolve().parent.parent)
    triton = find_spec("triton")
    if triton is not None and triton.origin is not None:
        found.append(Path(triton.origin).parent / "backends" / "nvidia")
    return tuple(dict.fromkeys(path for path in found if path.is_dir()))


@lru_cache(maxsize=1)
def nvcc() -> Path | None:
    """The CUDA compiler driver: on PATH, or in the toolkit that CUDA_HOME names or that lies in its usual place."""
    on_path = shutil.which("nvcc")
    places = (os.environ.get("CUDA_HOME"), os.environ.get("CUDA_PATH"), "/usr/local/cuda")
    others = [Path(place) / "bin" / "nvcc" for place in places if place]
    return Path(on_path) if on_path else next((path for path in others if path.is_file()), None)


def ptxas(*, blackwell: bool = False) -> Path | None:
    """The PTX assembler: Triton's own, which fits the PTX that Triton writes, else the toolkit's; None if neither.

    Triton's wheel has a second one for compute capability 10 and up.
    """
    triton = find_spec("triton")
    found: list[Path] = []
    if triton is not None and triton.origin is not None:
        directory = Path(triton.origin).parent / "backends" / "nvidia" / "bin"
        found += [directory / "ptxas-blackwell"] if blackwell else []
        found.append(directory / "ptxas")
    compiler = nvcc()
    found += [root / "bin" / "ptxas" for root in roots()]
    found += [compiler.parent / "ptxas"] if compiler is not None else []
    return next((path for path in found if path.is_file()), None)


def include_directories() -> tuple[Path, ...]:
    """Directories with CUDA's headers, those that fit torch first, each with its C++ standard library if it has one.

    More than one, because no wheel has them all (``mma.h`` lies in one and the file that it includes in another).
    """
    found = [root / "include" for root in roots()]
    headers = [path for path in found if (path / "cuda_fp16.h").is_file() or (path / "crt" / "mma.h").is_file()]
    return tuple(path for include in headers for path in (include, include / "cccl") if path.is_dir())


def libraries(pattern: str) -> list[Path]:
    """Shared libraries of that file name pattern, in the order in which they should be tried."""
    found = [path for root in roots() for lib in ("lib", "lib64") for path in sorted((root / lib).glob(pattern))]
    return list(dict.fromkeys(path.resolve() for path in found))
