"""How the judge judges: budgets, amounts of evidence, and how far a worker is shut in."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict, Field

from kernelevolve.workers.sandbox import Sandbox


class TimingPlan(BaseModel):
    """How much timing one effort gets. A block holds every program side by side, in random order."""

    model_config = ConfigDict(frozen=True)

    blocks: int = Field(gt=0, description="blocks at most")
    min_blocks: int = Field(gt=0, description="blocks even if they take longer than ``seconds``")
    calls: int = Field(gt=0, description="timed calls of a program in a block at most; slow programs get fewer")
    seconds: float = Field(gt=0, description="time for all workloads together")
    warm_up: int = Field(default=1, ge=1, description="calls of every program that are not recorded")
    abandon: float | None = Field(
        default=None, gt=1, description="stop after the least number of blocks if this many times slower than the best"
    )


class JudgeSettings(BaseModel):
    """Settings of one judge; two judges with equal settings judge alike."""

    model_config = ConfigDict(frozen=True)

    compile_seconds: float = Field(default=60.0, gt=0, description="to import, construct and first call a candidate")
    run_seconds: float = Field(default=10.0, gt=0, description="for any later call")
    baseline_compile_seconds: float = Field(default=300.0, gt=0, description="the same for a baseline, per workload")
    memory_bytes: int | None = Field(default=None, gt=0, description="for one worker; None: 60 % of the machine's")
    threads: int | None = Field(
        default=None, gt=0, description="CPU threads of every program; None: as the target says"
    )
    sandbox: Sandbox = Field(default=Sandbox.AUTO, description="how well workers must be shut in")
    baselines: tuple[str, ...] | None = Field(
        default=None, description="names to time against; None: all of the target"
    )
    screen_all_baselines: bool = Field(
        default=True, description="screen against every baseline; False: against the fastest alone, as a search does"
    )
    sets: int = Field(default=4, ge=3, description="input sets with a golden, per workload; the first two settle it")
    case_bytes: int = Field(
        default=1 << 30, gt=0, description="memory for the input sets of a workload; if they are larger there are three"
    )
    check_rate: float = Field(
        default=0.25, gt=0, le=1, description="share of blocks in which an output is compared; the end always"
    )
    memory_check_seconds: float = Field(
        default=20.0,
        ge=0,
        description="for the calls of a promotion under each tool that watches its accesses to memory; 0: none",
    )
    seed: int | None = Field(default=None, description="None: secret seeds from the system; a number only for tests")
    tune: TimingPlan = TimingPlan(blocks=15, min_blocks=3, calls=1, seconds=0.4, warm_up=3, abandon=3.0)
    screen: TimingPlan = TimingPlan(blocks=5, min_blocks=3, calls=3, seconds=0.5, warm_up=2, abandon=1.5)
    promotion: TimingPlan = TimingPlan(blocks=25, min_blocks=20, calls=5, seconds=40.0, warm_up=3)
