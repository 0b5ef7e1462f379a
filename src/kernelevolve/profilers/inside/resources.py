"""What a candidate's GPU kernels take of a multiprocessor, from what its compilers left in the worker."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any

from kernelevolve.languages.build_cache import BuildError, build_log, built_artifacts, run_compiler
from kernelevolve.languages.toolchain import cuda_toolkit
from kernelevolve.languages.toolchain.resources import KernelResources, read_ptxas
from kernelevolve.workers.site import Site

_TARGET = re.compile(r"^\.target\s+(sm_\d+\w*)", re.MULTILINE)
_MOST = 32


def read(site: Site) -> dict[str, Any]:
    """Probe: resources of every kernel that was built so far, by CUDA C++ or by Triton."""
    found = [kernel for path in built_artifacts() if path.suffix == ".cubin" for kernel in _of_cubin(path)]
    cache = os.environ.get("TRITON_CACHE_DIR")
    if cache:
        found += [kernel for path in sorted(Path(cache).rglob("*.ptx")) for kernel in of_ptx(path)]
    return {"kernels": [kernel.model_dump() for kernel in found[:_MOST]]}


def _of_cubin(path: Path) -> list[KernelResources]:
    return list(read_ptxas(build_log(path)).values())


def of_ptx(path: Path) -> list[KernelResources]:
    """By assembling a PTX file once more; nothing if that cannot be done. Static shared memory only."""
    target = _TARGET.search(path.read_text(errors="replace"))
    if target is None:
        return []
    digits = re.search(r"\d+", target[1])
    assembler = cuda_toolkit.ptxas(blackwell=digits is not None and int(digits.group()) >= 100)
    if assembler is None:
        return []
    try:
        log = run_compiler([str(assembler), "-v", f"--gpu-name={target[1]}", str(path), "-o", os.devnull])
    except BuildError:
        return []
    return list(read_ptxas(log).values())
