"""Which code is responsible for a kind of device, on either side; only that is imported."""

from __future__ import annotations

from kernelevolve.errors import InvalidRequest
from kernelevolve.workers.device import ArenaMaker, WorkerDevice


def arena_maker(device_type: str) -> ArenaMaker:
    """The judge's side for a torch device type."""
    if device_type == "cpu":
        from kernelevolve.workers.device_cpu import CpuArenaMaker

        return CpuArenaMaker()
    if device_type == "cuda":
        from kernelevolve.workers.device_cuda import CudaArenaMaker

        return CudaArenaMaker()
    raise InvalidRequest(f"workers cannot run on a {device_type!r} device", fix="use a cpu or cuda target")


def worker_device(device_type: str, threads: int, cache_bytes: int, *, guarded: bool = False) -> WorkerDevice:
    """The worker's side for a torch device type; makes the device context.

    With ``guarded`` every allocation on a GPU ends at an address behind which there is nothing. On a CPU it is the
    process that must have been started under a sanitizer.
    """
    if device_type == "cpu":
        from kernelevolve.workers.device_cpu import CpuWorkerDevice

        return CpuWorkerDevice(threads, cache_bytes)
    if device_type == "cuda" and guarded:
        from kernelevolve.workers.guarded_cuda import GuardedCudaWorkerDevice

        return GuardedCudaWorkerDevice(threads)
    if device_type == "cuda":
        from kernelevolve.workers.device_cuda import CudaWorkerDevice

        return CudaWorkerDevice(threads, cache_bytes)
    raise InvalidRequest(f"workers cannot run on a {device_type!r} device", fix="use a cpu or cuda target")
