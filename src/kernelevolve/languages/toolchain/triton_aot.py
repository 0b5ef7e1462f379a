"""Triton kernels compiled ahead of time, without a GPU: what they take of a multiprocessor.

The kernel's module is imported by the caller, in a process in which TRITON_INTERPRET is not set; a kernel from an
untrusted file belongs in a worker.
"""

from __future__ import annotations

import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from kernelevolve.errors import MissingTarget
from kernelevolve.languages.build_cache import BuildError, run_compiler
from kernelevolve.languages.toolchain import cuda_toolkit
from kernelevolve.languages.toolchain.resources import KernelResources, read_ptxas

_WARP_SIZE = 32


def compile_report(
    kernel: Any,
    *,
    signature: Mapping[str, str],
    constants: Mapping[str, Any],
    capability: int = 90,
    num_warps: int = 4,
    num_stages: int = 3,
) -> KernelResources:
    """Registers, spills and shared memory of a ``@triton.jit`` function on an NVIDIA architecture.

    ``signature`` gives the Triton type of each argument that is not a constant (``{"x": "*fp32", "n": "i32"}``),
    ``constants`` the values of the ``tl.constexpr`` ones, ``capability`` the compute capability times ten. Pointers and
    integers are taken to be divisible by 16, as they are for aligned tensors. Shared memory beyond what a block may
    have is not refused by the compiler: see ``KernelResources.fits``. Raises BuildError with Triton's words,
    MissingTarget without an assembler.
    """
    import triton
    from triton.backends.compiler import GPUTarget
    from triton.compiler import ASTSource

    assembler = cuda_toolkit.ptxas(blackwell=capability >= 100)
    if assembler is None:
        raise MissingTarget("there is no ptxas", fix="pip install triton, or install CUDA")
    names = [parameter.name for parameter in kernel.params]
    types = {name: "constexpr" if name in constants else signature[name] for name in names}
    aligned = {
        (position,): [["tt.divisibility", 16]]
        for position, name in enumerate(names)
        if types[name].startswith("*") or types[name] in ("i32", "i64")
    }
    try:
        compiled = triton.compile(
            ASTSource(fn=kernel, signature=types, constexprs=dict(constants), attrs=aligned),
            target=GPUTarget("cuda", capability, _WARP_SIZE),
            options={"num_warps": num_warps, "num_stages": num_stages},
        )
    except triton.CompilationError as error:
        raise BuildError(f"error: {error}") from None
    with tempfile.TemporaryDirectory() as place:
        text = Path(place) / "kernel.ptx"
        text.write_text(compiled.asm["ptx"])
        arch = _target(compiled.asm["ptx"])
        log = run_compiler([str(assembler), "-v", f"--gpu-name={arch}", text.name, "-o", "kernel.cubin"], Path(place))
    (resources,) = read_ptxas(log).values()
    return resources.model_copy(update={"shared_bytes": int(compiled.metadata.shared)})


def _target(ptx: str) -> str:
    """The architecture that the PTX was written for, e.g. 'sm_90a'."""
    return next(line.split()[1].rstrip(",") for line in ptx.splitlines() if line.startswith(".target"))
