"""Which bottleneck the facts and the evidence name. Rules in the order in which they are asked; the first that holds.

1. *memory* or *compute*, near the ceiling: by the time that counts, which is the device's where there is one, the
   candidate reaches ``NEAR`` of the roofline, whose bound it then is (Williams, Waterman and Patterson, CACM 52(4),
   2009).
2. *launch*: the device works for less than ``BUSY`` of a call's wall time, without what the call of a baseline takes
   around its own work too, which no kernel can avoid; or a call outside of all operations and
   native functions takes more than that share; or the floor is shorter than an empty call (``Ceilings.launch_seconds``)
   and the time is at most ``LAUNCHES`` times that.
3. By the longest kernel's counters: the busier of memory and multiprocessors if it reaches ``NEAR``, else *latency*.
   60 % is the threshold of Nsight Compute's own rule ("achieved compute throughput and/or memory bandwidth below 60.0%
   of peak typically indicate latency issues").
4. By the processor's counters: *memory* if the bytes that missed the last cache reach ``NEAR`` of the bandwidth behind
   the floor; else *compute* from ``STALLED`` instructions per cycle on, *latency* below (Gregg, "CPU Utilization is
   Wrong", 2017: below 1 a processor mostly waits).
5. On a CPU, by operations of the framework, where they take more than ``BUSY`` of the time: *launch* if their mean is
   below ``DISPATCH`` seconds, which is what calling one takes; *memory* if the floor is and there are several, because
   each moves its operands to and from memory and has less to compute for it than the whole.
6. By counted instructions, where native functions take more than ``BUSY`` of the time: *compute* from ``BUSY_RATE``
   instructions a second and thread on, about one a cycle; else *latency*. Estimated: the count is of an AVX2 build.

Otherwise it is *unknown*.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from kernelevolve.profilers.diagnosis import JUDGE, Bottleneck, Distance, Evidence, Metric

NEAR = 0.6
BUSY = 0.5
LAUNCHES = 4.0
STALLED = 1.0
DISPATCH = 10e-6
BUSY_RATE = 2e9


@dataclass(frozen=True, slots=True)
class Facts:
    """What the judge knows of one candidate on one workload. Times are seconds per call; None if not measured."""

    candidate_id: str
    workload: str
    wall_seconds: float | None = None
    device_seconds: float | None = None
    around_seconds: float | None = None
    """What a call takes beside the device's work in any case: as much as for a baseline."""
    floor_seconds: float | None = None
    floor_bound: str = ""
    bytes: float = 0.0
    """Unavoidable traffic."""
    launch_seconds: float | None = None
    """Least time of an empty call on this device."""
    threads: int = 1

    @property
    def seconds(self) -> float | None:
        """The time that counts: the device's if there is one."""
        return self.device_seconds if self.device_seconds is not None else self.wall_seconds

    @property
    def distance(self) -> Distance:
        """How far it is from the floor."""
        seconds, floor = self.seconds, self.floor_seconds
        return Distance(
            floor_seconds=floor,
            floor_bound=self.floor_bound,
            measured_seconds=seconds,
            clock="" if seconds is None else "wall" if self.device_seconds is None else "device",
            fraction=floor / seconds if floor is not None and seconds else None,
        )

    def evidence(self) -> Iterator[Evidence]:
        """What of this names a bottleneck."""
        fraction = self.distance.fraction
        if fraction is not None:
            yield Evidence(
                profiler=JUDGE, metric=Metric.ROOFLINE_SHARE, value=fraction, unit="share",
                detail=f"the floor is {self.floor_bound}",
            )  # fmt: skip
        if self.device_seconds is not None and self.wall_seconds:
            own = self.wall_seconds - (self.around_seconds or 0.0)
            share = self.device_seconds / own if own > self.device_seconds else 1.0
            detail = "" if self.around_seconds is None else "without what a baseline's call takes around its work too"
            yield Evidence(
                profiler=JUDGE, metric=Metric.DEVICE_SHARE, value=share, unit="share", detail=detail
            )  # fmt: skip


def name_bottleneck(facts: Facts, evidence: Sequence[Evidence]) -> tuple[Bottleneck, str]:
    """The bottleneck and why, as a clause without a full stop."""
    rules = (_ceiling, _launch, _gpu_counters, _cpu_counters, _operations, _instructions)
    found = next((named for rule in rules if (named := rule(facts, evidence)) is not None), None)
    if found is not None:
        return found
    if facts.seconds is None and not evidence:
        return Bottleneck.UNKNOWN, "it was neither timed nor profiled"
    fraction = facts.distance.fraction
    far = f"it reaches {_percent(fraction)} of the roofline, and " if fraction is not None else ""
    return Bottleneck.UNKNOWN, f"{far}nothing that was seen says what takes the rest"


def _launch(facts: Facts, evidence: Sequence[Evidence]) -> tuple[Bottleneck, str] | None:
    device = _value(evidence, Metric.DEVICE_SHARE)
    if device is None:
        device = _value(evidence, Metric.DEVICE_BUSY_SHARE)
    if device is not None and device < BUSY:
        launches = _value(evidence, Metric.KERNEL_LAUNCHES)
        many = f", in {launches:g} launches" if launches is not None else ""
        return Bottleneck.LAUNCH, f"the device works for {_percent(device)} of a call only{many}"
    host = _value(evidence, Metric.HOST_SHARE)
    if host is not None and host > BUSY:
        return Bottleneck.LAUNCH, f"{_percent(host)} of a call is spent in Python, outside of any operation or kernel"
    seconds, fraction = facts.seconds, facts.distance.fraction
    if facts.floor_bound != "launch" or seconds is None:
        return None
    if facts.launch_seconds is not None:
        short = seconds <= LAUNCHES * facts.launch_seconds
    else:  # The floor is below an empty call's time, so what is near the floor is near that too.
        short = fraction is not None and fraction >= 1 / LAUNCHES
    return (Bottleneck.LAUNCH, "the work takes less time than an empty call") if short else None


def _ceiling(facts: Facts, evidence: Sequence[Evidence]) -> tuple[Bottleneck, str] | None:
    fraction = facts.distance.fraction
    if fraction is None or fraction < NEAR or facts.floor_bound not in ("memory", "compute"):
        return None
    device = _value(evidence, Metric.DEVICE_SHARE)
    waits = f"; the device works for {_percent(device)} of a call only" if device is not None and device < BUSY else ""
    return Bottleneck(facts.floor_bound), f"it is near the ceiling, at {_percent(fraction)} of the roofline{waits}"


def _gpu_counters(facts: Facts, evidence: Sequence[Evidence]) -> tuple[Bottleneck, str] | None:
    kernels = [item for item in evidence if item.metric is Metric.KERNEL_SECONDS and item.profiler == "ncu"]
    if not kernels:
        return None
    name = max(kernels, key=lambda item: item.value).subject
    own = [item for item in evidence if item.subject == name]
    arithmetic, memory = _value(own, Metric.SM_THROUGHPUT), _value(own, Metric.MEMORY_THROUGHPUT)
    if arithmetic is None or memory is None:
        return None
    figures = f"{name} keeps the memory at {_percent(memory)} and the multiprocessors at {_percent(arithmetic)} of peak"
    if max(arithmetic, memory) >= NEAR:
        return (Bottleneck.MEMORY if memory >= arithmetic else Bottleneck.COMPUTE), figures
    occupancy = _value(own, Metric.ACHIEVED_OCCUPANCY)
    idle = f", with {_percent(occupancy)} occupancy" if occupancy is not None else ""
    return Bottleneck.LATENCY, f"{figures}{idle}"


def _cpu_counters(facts: Facts, evidence: Sequence[Evidence]) -> tuple[Bottleneck, str] | None:
    rate = _value(evidence, Metric.INSTRUCTIONS_PER_CYCLE)
    if rate is None:
        return None
    missed, seconds = _value(evidence, Metric.LAST_LEVEL_MISS_BYTES), facts.seconds
    if missed is not None and seconds and facts.floor_seconds and facts.floor_bound == "memory":
        reached = missed / seconds / (facts.bytes / facts.floor_seconds)
        if reached >= NEAR:
            return Bottleneck.MEMORY, f"what missed the last cache takes {_percent(reached)} of the memory's bandwidth"
    figures = f"{rate:.2g} instructions per cycle"
    return (Bottleneck.COMPUTE if rate >= STALLED else Bottleneck.LATENCY), figures


def _operations(facts: Facts, evidence: Sequence[Evidence]) -> tuple[Bottleneck, str] | None:
    shares = [
        item for item in evidence if item.metric is Metric.OPERATION_SHARE and item.detail.startswith("operation")
    ]
    share = sum(item.value for item in shares)
    count = None if on_gpu(evidence) else _value(evidence, Metric.OPERATIONS)
    under_profiler = _value(evidence, Metric.CALL_SECONDS)
    seconds = facts.wall_seconds if facts.wall_seconds is not None else under_profiler
    if share <= BUSY or not count or seconds is None:
        return None
    mean = share * seconds / count
    if mean < DISPATCH:
        return Bottleneck.LAUNCH, f"{count:g} operations of {1e6 * mean:.1f} µs each take as long to call as to run"
    if count < 2 or facts.floor_bound != "memory":
        return None
    return Bottleneck.MEMORY, f"{count:g} operations each move their operands to and from memory"


def _instructions(facts: Facts, evidence: Sequence[Evidence]) -> tuple[Bottleneck, str] | None:
    count, seconds = _value(evidence, Metric.INSTRUCTIONS), facts.wall_seconds
    if seconds is None:
        seconds = _value(evidence, Metric.CALL_SECONDS)
    native = [item for item in evidence if item.metric is Metric.OPERATION_SHARE and item.detail.startswith("native")]
    if count is None or not seconds or (native and sum(item.value for item in native) <= BUSY):
        return None
    rate = count / seconds / facts.threads
    figures = f"about {rate / 1e9:.2g} instructions a nanosecond and thread (estimated from a count)"
    return (Bottleneck.COMPUTE if rate >= BUSY_RATE else Bottleneck.LATENCY), figures


def on_gpu(evidence: Sequence[Evidence]) -> bool:
    """True if kernels of a device were seen: how long the host is in an operation then says nothing of its work."""
    return any(item.metric in (Metric.KERNEL_LAUNCHES, Metric.DEVICE_SHARE) for item in evidence)


def _value(evidence: Sequence[Evidence], metric: Metric) -> float | None:
    return next((item.value for item in evidence if item.metric is metric), None)


def _percent(share: float) -> str:
    return f"{100 * share:.2g} %" if share < 0.1 else f"{100 * share:.0f} %"
