"""Specification sheets: what a vendor says of a chip, for when there is none to measure.

One TOML file a chip in ``specs/``. Figures are the vendor's peak rates: dense (without structured sparsity), at boost
clock, and above what any program reaches; nothing that is measured is ever mixed with them.
"""

from __future__ import annotations

import tomllib
from pathlib import Path

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from kernelevolve.errors import InvalidRequest, KernelEvolveError
from kernelevolve.targets.target import Ceilings

_DIRECTORY = Path(__file__).parent / "specs"


class Specification(BaseModel):
    """One chip on paper."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: str = Field(description="as the vendor calls it")
    target: str = Field(description="name of the registered Target")
    source: str = Field(description="the documents the figures are from")
    bandwidth: float = Field(gt=0, description="bytes per second of its memory")
    flops: dict[str, float] = Field(description="dtype name -> multiply-adds counted as 2, per second, dense")
    launch_seconds: float = Field(gt=0, description="assumed; no sheet gives it")
    facts: dict[str, str | int | float] = Field(description="what Target.facts says of it")
    cache_bytes: int = Field(gt=0, description="last-level cache")
    threads: int = Field(default=1, gt=0)

    def ceilings(self) -> Ceilings:
        """The figures as ceilings that are marked as not measured."""
        return Ceilings(
            device=self.name, read_bandwidth=self.bandwidth, copy_bandwidth=self.bandwidth, flops=self.flops,
            launch_seconds=self.launch_seconds, cache_bytes=self.cache_bytes, threads=self.threads, measured=False,
        )  # fmt: skip


def names() -> list[str]:
    """The chips that have a sheet, e.g. 'h100'."""
    return sorted(path.stem for path in _DIRECTORY.glob("*.toml"))


def load(name: str) -> Specification:
    """The sheet of that name. Raises InvalidRequest with the known names, KernelEvolveError if the file is wrong."""
    path = _DIRECTORY / f"{name}.toml"
    if name not in names():
        raise InvalidRequest(f"there is no specification named {name!r}", fix=f"use one of: {', '.join(names())}")
    try:
        return Specification.model_validate(tomllib.loads(path.read_text()))
    except (tomllib.TOMLDecodeError, ValidationError) as error:
        first = " ".join(str(error).splitlines()[:3])
        raise KernelEvolveError(
            f"the specification cannot be read: {first}", path=path, fix="correct the file"
        ) from None
