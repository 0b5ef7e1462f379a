"""C++ for the CPU: OpenMP over rows, SIMD within a row, one C function a kernel, built through ``languages.cpp``."""

from __future__ import annotations

import re
from collections.abc import Mapping

from kernelevolve.operators.synthesis.emit.cpp.function import Function
from kernelevolve.operators.synthesis.emit.cpp.products import product_function
from kernelevolve.operators.synthesis.emit.cpp.rows import row_function
from kernelevolve.operators.synthesis.emit.emitter import Emitted, Facts, Traits
from kernelevolve.operators.synthesis.ir import Program
from kernelevolve.operators.synthesis.kernels import LoopKernel, Schedule
from kernelevolve.operators.synthesis.plan import Planner

_HEAD = """\
#include "ke_math.h"
#include "ke_kernel.h"
#include "ke_product.h"
#include "ke_std.h"

#include <limits>

// A number of lanes that the compiler knows, for loops that it unrolls.
template <int N>
struct Fixed {
  constexpr operator int() const { return N; }
};
"""


_STREAM = '#include "ke_stream.h"\n'
"""Above the rest, where a kernel has streaming stores."""


class CppEmitter:
    """Emitter for C++."""

    language = "cpp"

    def traits(self, facts: Facts) -> Traits:
        """Rows on the stack up to 64 KiB of float32."""
        return Traits(products=("tiled", "library"), row_elements=1 << 14)

    def emit(self, schedule: Schedule, planner: Planner, facts: Facts) -> Emitted:
        """One C++ source with all kernels."""
        if not schedule.kernels:
            return Emitted((), "", {})
        functions = [_function(kernel, schedule.program, planner) for kernel in schedule.kernels]
        source = "\n\n".join([_HEAD.rstrip(), *(f.finish() for f in functions)])
        if "ke::stream(" in source:
            source = _STREAM + source
        tunables = _tunables(source, facts)
        flags = ", ".join(f'f"-D{name}={{CONFIG[{name!r}]}}"' for name in tunables)
        lines = [
            "SOURCE = r\"\"\"", source, '"""', "",
            f"_kernels = cpp.build(SOURCE, flags=[{flags}])",
        ]  # fmt: skip
        launches = {f.kernel.name: (_launch(f),) for f in functions}
        return Emitted(
            imports=("from kernelevolve.languages import cpp",), module_text="\n".join(lines), launches=launches,
            tunables=tunables,
        )  # fmt: skip


def _function(kernel: LoopKernel, program: Program, planner: Planner) -> Function:
    return product_function(kernel) if kernel.has_product else row_function(kernel, program, planner)


def _launch(function: Function) -> str:
    arguments = [
        f"_addresses({', '.join(m.name for m in b.members)})" if b.members else b.name for b in function.parameters
    ]
    arguments += [s.name for s in function.sizes]
    return f"_kernels.{function.kernel.name}({', '.join(arguments)})"


def _tunables(source: str, facts: Facts) -> Mapping[str, str]:
    """Declarations of the tunables that a source names."""
    lanes = int(facts.get("simd_bytes", 32)) // 4
    known = {
        "LANES": f"Choice({lanes}, {2 * lanes}, {4 * lanes}, {8 * lanes}, default={4 * lanes})",
        "CHUNK": "PowerOfTwo(512, 65536, 8192)",
        "ROWS_PER_TASK": "PowerOfTwo(1, 64, 8)",
        "PREFETCH": "Choice(4, 8, 16, 32, 64, default=32)",
        "ROWS": "Choice(16, 32, 64, 96, 128, 192, 256, default=128)",
        "MR": "Choice(4, 6, 8, 12, default=8)",
        "NV": "Choice(1, 2, 3, 4, default=3)",
        "KC": "Choice(128, 256, 512, 1024, default=256)",
        "PANELS": "Choice(1, 2, 4, 8, default=2)",
    }
    return {name: text for name, text in known.items() if re.search(rf"\b{name}\b", source)}


EMITTER = CppEmitter()
