"""What one GPU kernel takes of a multiprocessor, read from ``ptxas -v``; known without a GPU."""

from __future__ import annotations

import re

from pydantic import BaseModel, ConfigDict, Field

_FIGURES = {
    "registers": r"Used (\d+) registers",
    "stack_bytes": r"(\d+) bytes stack frame",
    "spill_store_bytes": r"(\d+) bytes spill stores",
    "spill_load_bytes": r"(\d+) bytes spill loads",
    "shared_bytes": r"(\d+) bytes smem",
    "barriers": r"used (\d+) barriers",
}
_SHARED_LIMITS = {
    70: 96 << 10, 75: 64 << 10, 80: 163 << 10, 86: 99 << 10, 87: 163 << 10, 89: 99 << 10, 90: 227 << 10,
    100: 227 << 10, 103: 227 << 10, 110: 227 << 10, 120: 99 << 10, 121: 99 << 10,
}  # fmt: skip


class KernelResources(BaseModel):
    """The resources of one kernel on one architecture: compiled, not run."""

    model_config = ConfigDict(frozen=True)

    kernel: str
    arch: str = Field(description="e.g. 'sm_90a'")
    registers: int = Field(description="per thread")
    shared_bytes: int = Field(default=0, description="shared memory per block that is known when compiling")
    stack_bytes: int = Field(default=0, description="local memory per thread")
    spill_store_bytes: int = Field(default=0, description="registers written to local memory, per thread")
    spill_load_bytes: int = Field(default=0, description="registers read back from it, per thread")
    barriers: int = 0

    @property
    def fits(self) -> bool:
        """False if the shared memory exceeds what one block may have: such a kernel compiles and cannot be launched."""
        return self.shared_bytes <= shared_limit(self.arch)


def shared_limit(arch: str) -> int:
    """Most shared memory of one block, in bytes (CUDA C++ Programming Guide, table of technical specifications).

    48 KiB, what every architecture has, for one that is not in the table.
    """
    digits = re.search(r"\d+", arch)
    return _SHARED_LIMITS.get(int(digits.group()) if digits else 0, 48 << 10)


def read_ptxas(log: str) -> dict[str, KernelResources]:
    """Kernel name -> resources, from what ``ptxas -v`` said."""
    found = {}
    sections = re.split(r"Compiling entry function '", log)[1:]
    for section in sections:
        name, _, rest = section.partition("'")
        arch = re.search(r"for '(\w+)'", rest)
        figures = {field: int(m.group(1)) for field, pattern in _FIGURES.items() if (m := re.search(pattern, rest))}
        if "registers" in figures:
            found[name] = KernelResources.model_validate(
                {"kernel": name, "arch": arch.group(1) if arch else "", **figures}
            )
    return found
