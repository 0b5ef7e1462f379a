"""Diagnosis: what holds one candidate back, by what evidence, how far it is from the ceiling, and what to do."""

from __future__ import annotations

from enum import StrEnum

from pydantic import BaseModel, ConfigDict, Field

JUDGE = "judge"
"""Named as the source of evidence that the judge took itself; all other sources are profilers."""

IN_ORDER = "adds element by element"
"""Detail of a vectorised loop whose loads are wide and whose sum is not."""


class Bottleneck(StrEnum):
    """What a program spends its time on."""

    MEMORY = "memory"
    """Moving data: faster only by moving less of it."""
    COMPUTE = "compute"
    """Executing instructions: faster only by fewer or wider ones."""
    LATENCY = "latency"
    """Waiting: neither the memory nor the arithmetic units are busy while it runs."""
    LAUNCH = "launch"
    """Being called: the host, or starting and ending kernels, takes longer than what they do."""
    UNKNOWN = "unknown"
    """The evidence does not say; the summary names what would."""


class Metric(StrEnum):
    """What a piece of evidence is about. Shares are from 0 to 1, times seconds, all per call of the program."""

    # The judge's own.
    ROOFLINE_SHARE = "roofline_share"
    """Floor over measured time."""
    DEVICE_SHARE = "device_share"
    """Device time over wall time of a call."""
    # Operations and launches.
    CALL_SECONDS = "call_seconds"
    """Wall time of a call by the worker's own clock, under a profiler."""
    KERNEL_LAUNCHES = "kernel_launches"
    KERNEL_SECONDS = "kernel_seconds"
    """Mean time of one launch of a kernel."""
    KERNEL_SHARE = "kernel_share"
    """A kernel's share of the device's busy time."""
    DEVICE_BUSY_SHARE = "device_busy_share"
    """Share of a call in which some kernel runs."""
    OPERATIONS = "operations"
    """Operations of the framework and native functions that the program calls directly."""
    OPERATION_SHARE = "operation_share"
    """An operation's or function's share of the call's wall time on the host."""
    HOST_SHARE = "host_share"
    """Share of a call outside of any operation, native function or kernel: Python itself."""
    # Processor.
    LOOP_VECTORISED = "loop_vectorised"
    """Bytes of the vectors that the compiler used for a loop."""
    LOOP_NOT_VECTORISED = "loop_not_vectorised"
    """0; the compiler's reason is the detail."""
    INSTRUCTIONS = "instructions"
    INSTRUCTION_SHARE = "instruction_share"
    """A line's share of the instructions."""
    CACHE_LINE_BYTES = "cache_line_bytes"
    """Bytes that a simulated first-level data cache read because it did not hold them."""
    INSTRUCTIONS_PER_CYCLE = "instructions_per_cycle"
    LAST_LEVEL_MISS_BYTES = "last_level_miss_bytes"
    PROCESSORS_USED = "processors_used"
    """Processor time over wall time."""
    PAGE_FAULTS = "page_faults"
    CONTEXT_SWITCHES = "context_switches"
    # GPU.
    SM_THROUGHPUT = "sm_throughput"
    """Share of the peak of the busiest unit of the multiprocessors."""
    MEMORY_THROUGHPUT = "memory_throughput"
    """Share of the peak of the busiest unit from the first-level cache to DRAM."""
    DRAM_THROUGHPUT = "dram_throughput"
    DRAM_BYTES = "dram_bytes"
    ACHIEVED_OCCUPANCY = "achieved_occupancy"
    THEORETICAL_OCCUPANCY = "theoretical_occupancy"
    OCCUPANCY_LIMIT = "occupancy_limit"
    """Blocks per multiprocessor that the scarcest resource, named in the detail, allows."""
    STALL_CYCLES = "stall_cycles"
    """Cycles that a warp waits per instruction, for the reason named in the detail."""
    STALL_SHARE = "stall_share"
    """That reason's share of all cycles between two instructions of a warp."""
    RULE = "rule"
    """A finding of the tool's own rules; the value is its estimated gain in per cent, 0 if it gives none."""
    # Compiled kernels.
    REGISTERS = "registers"
    SPILL_BYTES = "spill_bytes"
    SHARED_BYTES = "shared_bytes"


class Place(BaseModel):
    """A line of a source."""

    model_config = ConfigDict(frozen=True)

    file: str = Field(description="'candidate.py', or 'source 1' for the first source that the candidate builds …")
    line: int = Field(ge=1)
    last: int | None = Field(default=None, description="last line of what begins here, if that is more than one line")
    text: str = Field(default="", description="the line itself, shortened")

    def __str__(self) -> str:
        return f"{self.file}:{self.line}"


class Evidence(BaseModel):
    """One fact and where it comes from."""

    # JSON has no infinity and no NaN.
    model_config = ConfigDict(frozen=True, allow_inf_nan=False)

    profiler: str = Field(description="name of the profiler, or 'judge'")
    metric: Metric
    value: float
    unit: str = Field(default="", description="'s', 'B', 'share', 'per call' …")
    subject: str = Field(default="", description="the kernel, function or operation; empty for the whole call")
    detail: str = Field(default="", description="what a number cannot say")
    place: Place | None = None


class Distance(BaseModel):
    """How far the candidate is from the least time that this device needs for the work."""

    model_config = ConfigDict(frozen=True)

    floor_seconds: float | None = Field(default=None, description="the roofline; None if it is not known")
    floor_bound: str = Field(default="", description="what the floor consists of: 'memory', 'compute' or 'launch'")
    measured_seconds: float | None = Field(default=None, description="per call by the judge; None if it was not timed")
    clock: str = Field(default="", description="'device' or 'wall'")
    fraction: float | None = Field(default=None, description="floor over measured; 1 is the ceiling")


class Suggestion(BaseModel):
    """Something that an operator can act on, with the evidence that it follows from."""

    model_config = ConfigDict(frozen=True)

    text: str
    evidence: tuple[Evidence, ...] = Field(min_length=1)


class Diagnosis(BaseModel):
    """What was found out about one candidate on one workload. Evidence for the search, never for a verdict."""

    model_config = ConfigDict(frozen=True)

    candidate_id: str
    workload: str
    bottleneck: Bottleneck
    summary: str = Field(description="one sentence: the bottleneck and what names it")
    distance: Distance
    evidence: tuple[Evidence, ...] = ()
    suggestions: tuple[Suggestion, ...] = Field(default=(), description="the most telling first")
    ran: tuple[str, ...] = Field(default=(), description="profilers that said something")
    missing: dict[str, str] = Field(default_factory=dict, description="profilers that could not, and why")

    def about(self, metric: Metric) -> tuple[Evidence, ...]:
        """The evidence of one metric, in order."""
        return tuple(item for item in self.evidence if item.metric is metric)
