"""Plain PyTorch: a ``ModelNew`` without a kernel of its own. Runs anywhere and says so."""

from __future__ import annotations

from kernelevolve.languages.language import Availability


class PyTorch:
    """Candidates that only call torch."""

    name = "pytorch"
    targets = frozenset({"cpu", "nvidia"})

    def availability(self) -> Availability:
        import torch

        return Availability(ok=True, version=torch.__version__)

    def matches(self, source: str) -> bool:
        return False  # What is left when no other language matches.


LANGUAGE = PyTorch()
