"""Triton for NVIDIA GPUs: row kernels, and products on the tensor cores with fused passes before and after."""

from __future__ import annotations

from kernelevolve.operators.synthesis.emit.emitter import Emitted, Facts, Traits
from kernelevolve.operators.synthesis.emit.triton.operations import HELPERS
from kernelevolve.operators.synthesis.emit.triton.products import write_product_kernel
from kernelevolve.operators.synthesis.emit.triton.rows import LONGEST_ROW, write_row_kernel
from kernelevolve.operators.synthesis.emit.triton.tile import KernelText
from kernelevolve.operators.synthesis.kernels import LoopKernel, Schedule
from kernelevolve.operators.synthesis.plan import Planner

_ADDRESS_TABLE = '''@functools.lru_cache(maxsize=64)
def _addresses(pointers, device):
    return torch.tensor(pointers, dtype=torch.int64, device=device)


def address_table(tensors):
    """Where the tensors lie, as a tensor that a kernel can index."""
    return _addresses(tuple(t.data_ptr() for t in tensors), tensors[0].device)
'''
_CONSTANT_TABLE = '''@functools.lru_cache(maxsize=64)
def constant_table(values, device):
    """A short table of integers on the device."""
    return torch.tensor(values, dtype=torch.int64, device=device)
'''


_LONGEST_SUM = 1024
"""On an H200 cuBLAS multiplies at 3/4 of the peak and a tile loop at 1/2. Over 1024 terms in 16 bits that difference
takes as long as writing a result of 2 bytes and reading it again (measured with 8192 x 3456 x 3456 in bfloat16)."""


class TritonEmitter:
    """Writes schedules as Triton kernels."""

    language = "triton"

    def traits(self, facts: Facts) -> Traits:
        return Traits(row_elements=LONGEST_ROW, packed_sides=True, moments=False, longest_sum=_LONGEST_SUM)

    def emit(self, schedule: Schedule, planner: Planner, facts: Facts) -> Emitted:
        """Raises Inexpressible if a kernel cannot be written as it was scheduled."""
        hints = schedule.program.size_hints
        texts = {kernel.name: self._kernel(kernel, dict(hints), planner) for kernel in schedule.kernels}
        source = "\n\n\n".join(text.source for text in texts.values())
        launches = {name: text.launch for name, text in texts.items()}
        everything = source + "\n".join(line for lines in launches.values() for line in lines)
        parts = [_ADDRESS_TABLE] if "address_table(" in everything else []
        parts += [_CONSTANT_TABLE] if "constant_table(" in everything else []
        parts += _helpers(source)
        imports = ["import triton", "import triton.language as tl"]
        if "libdevice." in source:
            imports.append("from triton.language.extra import libdevice")
        if parts and "functools" in "".join(parts):
            imports.insert(0, "import functools")
        return Emitted(
            imports=tuple(imports),
            module_text="\n\n".join(part.strip() + "\n" for part in [*parts, source]),
            launches=launches,
            tunables={name: text for kernel in texts.values() for name, text in kernel.tunables.items()},
            constraints=tuple(c for kernel in texts.values() for c in kernel.constraints),
            seeds=_merged_seeds(list(texts.values())),
        )

    @staticmethod
    def _kernel(kernel: LoopKernel, hints: dict[str, int], planner: Planner) -> KernelText:
        if not kernel.has_product:
            return write_row_kernel(kernel, hints, planner)
        # Three passes in TF32 come near float32; one pass would be a silent loss of precision.
        precision = planner.choose(f"float32-product:{kernel.name}", ("tf32x3", "ieee"))
        return write_product_kernel(kernel, hints, precision)


def _helpers(source: str) -> list[str]:
    """The helper functions that a source names."""
    functions = HELPERS.strip().split("\n\n\n")
    return [text for text in functions if f"{text.split('def ')[1].split('(')[0]}" in source]


def _merged_seeds(texts: list[KernelText]) -> tuple[dict[str, bool | int | float | str], ...]:
    """The first seeds of all kernels together, then the second ones."""
    most = max((len(text.seeds) for text in texts), default=0)
    return tuple({k: v for text in texts if len(text.seeds) > i for k, v in text.seeds[i].items()} for i in range(most))


EMITTER = TritonEmitter()
