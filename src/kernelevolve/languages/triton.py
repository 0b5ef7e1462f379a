"""Triton, for GPUs. On a CPU only its interpreter runs, which checks arithmetic and says nothing about speed."""

from __future__ import annotations

from kernelevolve.languages.language import Availability


class Triton:
    """Triton candidates."""

    name = "triton"
    targets = frozenset({"nvidia"})

    def availability(self) -> Availability:
        try:
            import triton
        except ImportError:
            return Availability(ok=False, missing="the package triton", fix="pip install 'kernelevolve[nvidia]'")
        return Availability(ok=True, version=triton.__version__)

    def matches(self, source: str) -> bool:
        return "import triton" in source or "from triton" in source


LANGUAGE = Triton()
