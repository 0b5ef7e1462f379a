"""NVIDIA's compute-sanitizer: where it is, and how a program is started so that its kernels are watched.

https://docs.nvidia.com/compute-sanitizer/ComputeSanitizer
"""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from enum import StrEnum
from pathlib import Path

from kernelevolve.languages.toolchain import cuda_toolkit

NAME = "compute-sanitizer"
FIX = "apt-get install cuda-sanitizer (from NVIDIA)"
FOUND = 99
"""With which the sanitizer ends after a finding; what its log says is what counts."""
_PRINTED = 20
"""Findings in a log; the first is what anybody reads."""
_PADDING = 512
"""Bytes behind each allocation that belong to none: small allocations follow each other closely, and an access just
outside of one would hit its neighbour. CUDA aligns allocations to at least half of it."""


class Tool(StrEnum):
    """What is watched. ``initcheck`` is left out: it complains of every honest kernel that reads a whole vector or tile
    of which only the part that is no padding is used, and of what the driver itself has written."""

    MEMCHECK = "memcheck"
    """Accesses to memory that is not allocated, and misaligned ones: global, shared and local memory."""
    RACECHECK = "racecheck"
    """Threads of a block that access the same shared memory without a barrier between them."""
    SYNCCHECK = "synccheck"
    """Barriers that not all threads reach that must."""


_OF_TOOL: dict[Tool, tuple[str, ...]] = {
    # Torch and the libraries ask the driver for what it may not have, and handle the refusal; that is no finding.
    Tool.MEMCHECK: ("--report-api-errors", "no", "--padding", str(_PADDING)),
    Tool.RACECHECK: ("--racecheck-report", "analysis"),
    Tool.SYNCCHECK: (),
}


def program() -> Path | None:
    """The tool on PATH, or of an installed CUDA; None if there is none."""
    found = shutil.which(NAME)
    if found is not None:
        return Path(found)
    places = [root / folder / NAME for root in cuda_toolkit.roots() for folder in ("bin", NAME)]
    return next((path for path in places if path.is_file()), None)


def command(sanitizer: Path, tool: Tool, log: Path, target: Sequence[str]) -> list[str]:
    """The words that start ``target`` under a tool. Its findings go to ``log``, and nothing that the target prints."""
    return [
        str(sanitizer), "--tool", tool.value, *_OF_TOOL[tool],
        # Importing torch takes longer than the sanitizer would wait for the first use of CUDA.
        "--launch-timeout", "0",
        # A launcher of Python, and whatever a candidate starts, counts like the process itself.
        "--target-processes", "all",
        "--show-backtrace", "no", "--print-limit", str(_PRINTED), "--error-exitcode", str(FOUND),
        "--log-file", str(log), *target,
    ]  # fmt: skip
