"""Plain PyTorch: a ``ModelNew`` without a kernel of its own, e.g. a better algorithm in torch calls."""

from __future__ import annotations

from collections.abc import Mapping
from importlib.metadata import PackageNotFoundError, version
from types import MappingProxyType

from kernelevolve.languages.language import Availability, imports, inline_sources


class PyTorch:
    """Candidates that only call torch. Legitimate to judge; whoever shows one says that it has no kernel of its own."""

    name = "pytorch"
    targets = frozenset({"cpu", "nvidia"})
    limits: Mapping[str, str] = MappingProxyType({})

    def availability(self) -> Availability:
        """The version of torch, without importing it."""
        try:
            return Availability(ok=True, version=version("torch"))
        except PackageNotFoundError:
            return Availability(ok=False, missing="the package torch", fix="pip install torch")

    def matches(self, source: str) -> bool:
        """True if nothing in it compiles a kernel."""
        compiling = ("kernelevolve.languages", "triton")
        imported = any(name == c or name.startswith(f"{c}.") for name in imports(source) for c in compiling)
        return not imported and not inline_sources(source)


LANGUAGE = PyTorch()
