"""Triton for NVIDIA GPUs; on a CPU its interpreter checks arithmetic and says nothing about speed."""

from __future__ import annotations

from collections.abc import Mapping
from importlib.metadata import PackageNotFoundError, version
from types import MappingProxyType

from kernelevolve.languages.language import Availability, imports


class Triton:
    """Triton candidates."""

    name = "triton"
    targets = frozenset({"nvidia", "cpu"})
    limits: Mapping[str, str] = MappingProxyType(
        {
            "cpu": "the interpreter only: times mean nothing, bfloat16 arithmetic is silently wrong unless the kernel "
            "casts to float32 first, libdevice functions are missing, and an access out of bounds ends the process"
        }
    )

    def availability(self) -> Availability:
        """The version of Triton, without importing it."""
        try:
            return Availability(ok=True, version=version("triton"))
        except PackageNotFoundError:
            return Availability(ok=False, missing="the package triton", fix="pip install 'kernelevolve[nvidia]'")

    def matches(self, source: str) -> bool:
        """True if it imports Triton."""
        return any(name.partition(".")[0] == "triton" for name in imports(source))


LANGUAGE = Triton()
