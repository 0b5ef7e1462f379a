"""The CPU: a first-class target, on which everything runs and is measured."""

from __future__ import annotations

from pathlib import Path

from kernelevolve.hashing import digest_bytes
from kernelevolve.languages import Availability, cpp
from kernelevolve.targets import conditions, specification, topology
from kernelevolve.targets.ceilings import cached_ceilings
from kernelevolve.targets.target import Ceilings

_QUIET = 0.1
"""Share of the processors that others may take while ceilings are measured; beyond, they are measured again later."""


class Cpu:
    """The processor of this machine, as far as this process may use it."""

    name = "cpu"
    device_type = "cpu"
    exclusive_compile = True

    def availability(self) -> Availability:
        """Whether there is a C++ compiler: everything else that a CPU needs is there."""
        return cpp.LANGUAGE.availability()

    def device_name(self) -> str:
        """The model of the processor."""
        return topology.processor_name()

    def facts(self) -> dict[str, str | int | float]:
        """device, threads (that a program should use), physical_cores, isa, simd_bytes, extensions, l1_bytes …"""
        return {
            "device": self.device_name(),
            "threads": topology.usable_threads(),
            "physical_cores": topology.physical_cores(),
            "isa": {64: "avx512f", 32: "avx2"}.get(topology.vector_bytes(), topology.architecture()),
            "simd_bytes": topology.vector_bytes(),
            "extensions": " ".join(topology.extensions()),
            **{f"{level}_bytes": size for level, size in topology.cache_bytes().items()},
        }

    def conditions(self) -> dict[str, str]:
        """load and governor."""
        return conditions.of_cpu()

    def ceilings(self) -> Ceilings:
        """Measured with a compiler (some seconds, the first time); else those of a generic processor on paper."""
        if not self.availability().ok:
            return specification.load("cpu").ceilings()
        import torch

        from kernelevolve.targets.measured import cpu as measured

        key = {
            "device": self.device_name(), "threads": str(topology.usable_threads()), "torch": torch.__version__,
            "extensions": " ".join(topology.extensions()), "method": digest_bytes(Path(measured.__file__).read_bytes()),
        }  # fmt: skip
        others = topology.OtherWork()
        return cached_ceilings(key, measured.measure, disturbed=lambda: others.share() > _QUIET)


TARGET = Cpu()
