"""Target: a chip family, what it can do, and how programs run on it."""

from __future__ import annotations

from typing import Protocol

from pydantic import BaseModel, ConfigDict, Field

from kernelevolve.languages import Availability


class Ceilings(BaseModel):
    """What one device was measured to do at most; rates per second. Measured once per device and cached."""

    model_config = ConfigDict(frozen=True)

    device: str = Field(description="device name as the driver or kernel gives it")
    read_bandwidth: float = Field(description="bytes per second of a pure streaming read")
    copy_bandwidth: float = Field(description="bytes per second of a copy, read plus written bytes")
    flops: dict[str, float] = Field(
        description="'float32', 'tf32', 'bfloat16' … -> multiply-adds counted as 2, per second, in a matrix product"
    )
    launch_seconds: float = Field(description="least seconds from call to completion of an empty kernel")
    cache_bytes: int = Field(description="last-level cache, to be flushed before a timed call")
    threads: int = Field(default=1, description="CPU threads a program may use")
    measured: bool = Field(default=True, description="False: taken from the specification sheet")
    disturbed: bool = Field(default=False, description="True: other work ran meanwhile, so the rates may be too low")


class Target(Protocol):
    """One chip family. The module ``targets/<name>.py`` holds ``TARGET``, an instance of this."""

    name: str
    device_type: str
    """torch device type: 'cpu' or 'cuda'."""
    exclusive_compile: bool
    """True if compiling disturbs timing, because both use the same cores."""

    def availability(self) -> Availability:
        """Whether this machine has such a device."""
        ...

    def device_name(self) -> str:
        """The name of device 0."""
        ...

    def facts(self) -> dict[str, str | int | float]:
        """What a kernel writer needs to know: cores, SIMD width or multiprocessors, cache and shared memory sizes."""
        ...

    def conditions(self) -> dict[str, str]:
        """What decides times beside the program, at this moment: clocks, power, heat, other work."""
        ...

    def ceilings(self) -> Ceilings:
        """Measured ceilings (from the cache after the first call)."""
        ...
