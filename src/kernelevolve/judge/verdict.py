"""Verdict and Measurement: everything the judge has to say about a candidate."""

from __future__ import annotations

from enum import StrEnum
from statistics import median

from pydantic import BaseModel, ConfigDict, Field


class VerdictKind(StrEnum):
    """The one word of a verdict."""

    CORRECT = "correct"
    WRONG = "wrong"
    BUILD_ERROR = "build_error"
    RUNTIME_ERROR = "runtime_error"
    TIMEOUT = "timeout"
    OUT_OF_MEMORY = "out_of_memory"
    CHEAT = "cheat"
    INFRASTRUCTURE = "infrastructure"
    """The judge or the machine failed, not the candidate: nothing is known, and the candidate may be judged again."""


class Stage(StrEnum):
    """How far a candidate came; a verdict names the stage at which it was settled."""

    STATIC = "static"
    BUILD = "build"
    SMOKE = "smoke"
    CORRECTNESS = "correctness"
    INTEGRITY = "integrity"
    TIMING = "timing"
    PROMOTION = "promotion"


class Effort(StrEnum):
    """How thoroughly a candidate is judged; a claim shown to a user always rests on a promotion."""

    TUNE = "tune"
    """One configuration among many: build, one correctness check, a few timings. Never a claim."""
    SCREEN = "screen"
    """Every candidate: all search workloads, integrity, short interleaved timing."""
    PROMOTION = "promotion"
    """A finalist: fresh process and secret seed, held-out and stress workloads, long interleaved timing."""


class Clock(StrEnum):
    """Which time a sample is."""

    DEVICE = "device"
    WALL = "wall"
    JUDGE = "judge"
    """The judge's own, over a series of calls; the others are read by the worker."""
    GRAPH = "graph"
    """Device time of a call that is replayed as a CUDA graph; decides nothing."""


LEAST_MARGINS = {Clock.DEVICE: 0.005, Clock.WALL: 0.02, Clock.JUDGE: 0.02}
"""What differs by less is not called faster, however quiet the machine was. By wall time two processes of one program
lie about 1 % apart on a CPU, for their whole lives (``benchmarks/judge_noise.py``)."""
NOISE_ALLOWANCE = 0.005


class OutputError(BaseModel):
    """How far one output is from the fp64 golden on one workload."""

    # JSON has no infinity and no NaN; as null they could not be read back.
    model_config = ConfigDict(frozen=True, ser_json_inf_nan="strings")

    workload: str
    output: str = Field(description="path of the output in a nested result, e.g. '0' or '1.values'")
    rms: float = Field(description="root mean square of the error, in the output's own units")
    rms_limit: float
    max: float = Field(description="largest absolute error")
    max_limit: float
    moved_rms: float = Field(description="rms of the part of the output that the inputs move")
    reference_rms: float = Field(description="rms error of the reference itself in its dtype")
    first_index: tuple[int, ...] | None = Field(default=None, description="first element over the limit")
    first_got: float | None = None
    first_expected: float | None = None

    @property
    def passed(self) -> bool:
        """True if both errors are within their limits (a NaN error never is)."""
        return self.rms <= self.rms_limit and self.max <= self.max_limit


class Samples(BaseModel):
    """Raw times of one program on one workload, in the order taken; ``blocks[i]`` were taken side by side.

    Times are seconds per call.
    """

    model_config = ConfigDict(frozen=True)

    program: str = Field(description="'candidate' or the name of a baseline: 'eager', 'compile', 'max-autotune', …")
    workload: str
    clock: Clock
    method: str = Field(description="how the time was taken, e.g. 'cuda-event, L2 flushed' or 'monotonic, LLC flushed'")
    blocks: tuple[tuple[float, ...], ...]

    @property
    def seconds(self) -> float:
        """Median over the blocks' medians: seconds per call."""
        return median(median(block) for block in self.blocks)


class Speedup(BaseModel):
    """Baseline time over candidate time, with a bootstrap interval over paired blocks."""

    model_config = ConfigDict(frozen=True)

    baseline: str
    clock: Clock
    value: float
    low: float
    high: float
    confidence: float = 0.95


class Measurement(BaseModel):
    """One timing session: the candidate and its baselines, interleaved."""

    model_config = ConfigDict(frozen=True)

    samples: tuple[Samples, ...]
    speedups: tuple[Speedup, ...] = ()
    noise_floors: dict[Clock, float] = Field(
        default_factory=dict,
        description="|ratio - 1| of a baseline run twice, mean over workloads, by clock; empty if none was",
    )
    noise_at_start: dict[Clock, float] = Field(
        default_factory=dict,
        description="|ratio - 1| of a baseline and its twin when the judge started, largest over workloads, by clock",
    )
    environment: dict[str, str] = Field(default_factory=dict, description="clocks, threads, versions, device load")

    def noise_floor(self, clock: Clock) -> float:
        """What noise does to a ratio by this clock, as a fraction: by this session if a baseline was run twice in it.

        Otherwise what it did when the judge started, and 0 if that is not known either.
        """
        return self.noise_floors.get(clock, self.noise_at_start.get(clock, 0.0))

    def seconds(self, program: str = "candidate", clock: Clock | None = None) -> float:
        """Geometric mean over workloads of a program's seconds per call; device time where there is one.

        Raises KeyError if the program was not timed.
        """
        taken = [s for s in self.samples if s.program == program]
        clock = clock or (Clock.DEVICE if any(s.clock is Clock.DEVICE for s in taken) else Clock.WALL)
        mine = [s for s in taken if s.clock is clock]
        if not mine:
            raise KeyError(f"{program} was not timed")
        product = 1.0
        for s in mine:
            product *= s.seconds
        return float(product ** (1 / len(mine)))


class Roofline(BaseModel):
    """The physics of one workload: the least time in which this device could do the work."""

    model_config = ConfigDict(frozen=True)

    workload: str
    bytes: float = Field(description="unavoidable traffic: every input and weight read once, every output written once")
    flops: float
    floor_seconds: float = Field(description="max(bytes / bandwidth ceiling, flops / arithmetic ceiling)")
    bound: str = Field(description="'memory', 'compute' or 'launch'")
    fraction: float | None = Field(default=None, description="floor over the candidate's time; 1 is the roofline")


def is_win(speedup: Speedup, noise_floor: float) -> bool:
    """True if the whole interval lies above 1 by more than the least margin of its clock and than noise can do.

    The floor is the apparent difference of two processes that run one program: a single draw, which may be small by
    chance. So it gets an allowance, and wall time, which processes of one program share least, a margin of its own.
    """
    return speedup.low > 1 + max(LEAST_MARGINS[speedup.clock], noise_floor + NOISE_ALLOWANCE)


def _confirms(by_judge: Speedup | None, claim: Speedup, noise_floor: float) -> bool:
    """True if the judge's clock sees a win too, or as much as is claimed and nothing that speaks against it.

    A value above 1 alone would be half of all chances where nothing is faster; a wide interval would admit any claim.
    """
    if by_judge is None:
        return False
    slower = 1 - max(LEAST_MARGINS[Clock.JUDGE], noise_floor + NOISE_ALLOWANCE)
    agrees = by_judge.low > slower and by_judge.value > 1 and by_judge.high >= claim.low
    return agrees or is_win(by_judge, noise_floor)


class Verdict(BaseModel):
    """What the judge found. Only the judge makes one."""

    model_config = ConfigDict(frozen=True)

    candidate_id: str
    kind: VerdictKind
    stage: Stage
    effort: Effort
    reason: str = Field(default="", description="one sentence; empty for correct")
    detail: str = Field(default="", description="trimmed compiler log, or traceback of the candidate")
    errors: tuple[OutputError, ...] = ()
    measurement: Measurement | None = None
    rooflines: tuple[Roofline, ...] = ()
    artifact_key: str | None = Field(default=None, description="hash of the built artifact (.so, cubin, PTX)")
    notes: tuple[str, ...] = Field(default=(), description="to be known, e.g. 'product calls the library'")
    seconds_building: float = 0.0
    seconds_running: float = 0.0
    seconds_total: float = 0.0

    @property
    def correct(self) -> bool:
        """True for ``correct`` only."""
        return self.kind is VerdictKind.CORRECT

    @property
    def ran(self) -> bool:
        """True if it runs, rightly or not: it can be profiled."""
        return self.kind in (VerdictKind.CORRECT, VerdictKind.WRONG)

    @property
    def seconds(self) -> float | None:
        """Candidate seconds per call (geometric mean over workloads; device time where there is one), if timed."""
        return self.measurement.seconds() if self.correct and self.measurement is not None else None

    @property
    def wins(self) -> bool:
        """True if a promotion found it faster than every baseline: all intervals above 1 by more than noise.

        By device time where there is one: a kernel cannot help what its caller does between two launches. The noise is
        what the promotion measured, by the same clock, on a baseline run twice. Both clocks are read by workers; the
        judge's own, which sees less sharply, must say faster too, beyond its noise or by as much as they do.
        """
        if not self.correct or self.effort is not Effort.PROMOTION or self.measurement is None:
            return False
        floors = self.measurement.noise_floors
        by_judge = {s.baseline: s for s in self.measurement.speedups if s.clock is Clock.JUDGE}
        return bool(self.speedups) and all(
            s.clock in floors
            and is_win(s, floors[s.clock])
            and _confirms(by_judge.get(s.baseline), s, floors.get(Clock.JUDGE, 0.0))
            for s in self.speedups.values()
        )

    @property
    def speedups(self) -> dict[str, Speedup]:
        """By baseline; by device time where there is one, else by wall time."""
        found: dict[str, Speedup] = {}
        for speedup in self.measurement.speedups if self.measurement is not None else ():
            if speedup.clock is Clock.DEVICE or (speedup.clock is Clock.WALL and speedup.baseline not in found):
                found[speedup.baseline] = speedup
        return found

    @property
    def roofline_fraction(self) -> float | None:
        """Geometric mean over workloads of the fraction of the roofline, if timed."""
        fractions = [r.fraction for r in self.rooflines if r.fraction]
        if not fractions:
            return None
        product = 1.0
        for f in fractions:
            product *= f
        return float(product ** (1 / len(fractions)))
