"""NVIDIA GPUs through CUDA; on paper where there is none, so that kernels can still be written and compiled."""

from __future__ import annotations

from pathlib import Path

from kernelevolve.hashing import digest_bytes
from kernelevolve.languages import Availability
from kernelevolve.languages.toolchain.resources import shared_limit
from kernelevolve.targets import conditions, specification
from kernelevolve.targets.ceilings import cached_ceilings
from kernelevolve.targets.target import Ceilings

COMPILE_ONLY_CHIP = "h100"
"""The specification whose figures stand in where there is no GPU."""


class Nvidia:
    """The GPU that torch uses: its current device, the first one unless something else was set."""

    name = "nvidia"
    device_type = "cuda"
    exclusive_compile = False

    def availability(self) -> Availability:
        """Whether torch can use a GPU here."""
        import torch

        if torch.version.cuda is None:
            fix = "install a CUDA build of torch (pip install torch on a machine with a GPU), or use --target cpu"
            return Availability(ok=False, missing="a torch that was built with CUDA", fix=fix)
        if not torch.cuda.is_available():
            fix = "run where nvidia-smi works, or use --target cpu"
            return Availability(ok=False, missing="an NVIDIA GPU with its driver", fix=fix)
        return Availability(ok=True, version=f"CUDA {torch.version.cuda}")

    def device_name(self) -> str:
        """The name that the driver reports, or the chip that is assumed for compiling."""
        if not self.availability().ok:
            return specification.load(COMPILE_ONLY_CHIP).name
        import torch

        return torch.cuda.get_device_name()

    def facts(self) -> dict[str, str | int | float]:
        """device, compute_capability, multiprocessors, l2_bytes, shared_bytes (most of one block), warp_size …"""
        if not self.availability().ok:
            sheet = specification.load(COMPILE_ONLY_CHIP)
            return {"device": sheet.name, **sheet.facts}
        import torch

        p = torch.cuda.get_device_properties(torch.cuda.current_device())
        return {
            "device": p.name,
            "compute_capability": f"{p.major}.{p.minor}",
            "multiprocessors": p.multi_processor_count,
            "l2_bytes": p.L2_cache_size,
            "shared_bytes": shared_limit(f"sm_{p.major}{p.minor}"),
            "shared_bytes_per_multiprocessor": p.shared_memory_per_multiprocessor,
            "threads_per_multiprocessor": p.max_threads_per_multi_processor,
            "warp_size": p.warp_size,
            "memory_bytes": p.total_memory,
        }

    def conditions(self) -> dict[str, str]:
        """sm_clock, power, temperature …, as nvidia-smi words them, and load; nothing of a GPU that is not there."""
        if not self.availability().ok:
            return conditions.of_cpu()
        import torch

        return conditions.of_gpu(torch.cuda.current_device()) | conditions.of_cpu()

    def ceilings(self) -> Ceilings:
        """Measured (some seconds, the first time); where there is no GPU, the specification's, marked as such."""
        if not self.availability().ok:
            return specification.load(COMPILE_ONLY_CHIP).ceilings()
        import torch

        from kernelevolve.targets.measured import nvidia as measured

        device = torch.cuda.current_device()
        key = {
            "device": self.device_name(), "driver": _driver_version(), "torch": torch.__version__,
            "cuda": str(torch.version.cuda), "method": digest_bytes(Path(measured.__file__).read_bytes()),
            "memory": str(torch.cuda.get_device_properties(device).total_memory),
        }  # fmt: skip
        return cached_ceilings(key, lambda: measured.measure(device))


def _driver_version() -> str:
    """The version of the kernel driver, e.g. '580.65.06'; '' if the system does not tell."""
    try:
        words = Path("/proc/driver/nvidia/version").read_text().split()
    except OSError:
        return ""
    return next((word for word in words if word[:1].isdigit() and word.count(".") >= 1), "")


TARGET = Nvidia()
