"""What is known of a problem's class, what a run learnt, and what of it a later run may see. Records only."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict, Field

from kernelevolve.candidates import Config

DEFAULT_INJECTION = 0.75
"""Share of the nodes whose prompts show skills, unless a run says otherwise."""


class ProblemClass(BaseModel):
    """What makes two problems alike: see ``similarity``."""

    model_config = ConfigDict(frozen=True)

    digest: str = Field(description="content hash of the problem")
    target: str
    operators: dict[str, float] = Field(
        default_factory=dict, description="ATen operator -> its share of the work, from 0 to 1; empty: not captured"
    )
    tensors: dict[str, int] = Field(
        default_factory=dict, description="role and rank, such as 'input 2d' -> how many tensors are of that kind"
    )
    size_band: int = Field(default=0, description="floor of log4 of the elements of the largest tensor")
    dtypes: tuple[str, ...] = Field(default=(), description="of inputs, weights and outputs, sorted")
    shapes: tuple[str, ...] = Field(default=(), description="of inputs and outputs, in words; not compared")


class BaselineSpeedup(BaseModel):
    """Baseline time over kernel time, with its 95 % interval."""

    model_config = ConfigDict(frozen=True)

    baseline: str
    value: float
    low: float
    high: float


class ChainStep(BaseModel):
    """One of the nodes from a draft to the best kernel."""

    model_config = ConfigDict(frozen=True)

    node: int
    operator: str
    gain: float | None = Field(description="parent time over its time; for a draft best baseline time over its time; "
                               "None: one of the two was not correct")  # fmt: skip
    parent: int | None = Field(default=None, description="None for a draft")
    change: str = Field(default="", description="what is different from the parent, in a few words")


class FailureGroup(BaseModel):
    """Candidates that failed in one way."""

    model_config = ConfigDict(frozen=True)

    kind: str
    reason: str = Field(description="the judge's sentence on the first of them")
    count: int
    nodes: tuple[int, ...] = Field(description="the first few of them")


class Skill(BaseModel):
    """What one run came to, by rule and without a model; every text that is not ours is printable and short."""

    model_config = ConfigDict(frozen=True)

    run: str
    problem: str
    problem_class: ProblemClass
    target: str
    device: str
    measured: str = Field(description="day on which the run began, as YYYY-MM-DD")
    evaluations: int
    node: int = Field(description="the best kernel")
    promoted: bool = Field(description="False: only the search's short timing stands behind the numbers")
    faster: bool = Field(description="True if a promotion found it faster than every baseline, interval included")
    language: str
    niche: str
    config: str
    plan: tuple[str, ...] = Field(description="structural decisions of a generated source")
    speedups: tuple[BaselineSpeedup, ...]
    seconds: float | None = Field(description="per call, geometric mean over the timed workloads")
    roofline_fraction: float | None
    bounds: tuple[str, ...] = Field(description="what the floors of the workloads rest on: memory, compute, launch")
    chain: tuple[ChainStep, ...] = Field(description="from the draft to the best kernel")
    failures: tuple[FailureGroup, ...] = Field(description="the most frequent first")
    tunables: tuple[str, ...] = Field(description="what the numeric search found of each, the most sensitive first")

    @property
    def speedup(self) -> float | None:
        """Over the best baseline; None if the kernel was not timed beside one."""
        return min((s.value for s in self.speedups), default=None)

    @property
    def citation(self) -> str:
        """Where it is from, in words."""
        return f"run {self.run}, node {self.node}, measured on {self.device or 'a device that was not named'}"


class SkillReference(BaseModel):
    """A page as it was when a run began: what the run sees does not change when the page does."""

    model_config = ConfigDict(frozen=True)

    run: str = Field(description="the run that wrote it; its identifier is the skill's")
    digest: str = Field(description="blob of the page's text")
    similarity: float


class TransferReference(BaseModel):
    """The best kernel of an earlier run, which a run may propose as a draft."""

    model_config = ConfigDict(frozen=True)

    run: str
    node: int
    digest: str = Field(description="blob of its source")
    language: str
    config: Config
    similarity: float


class SkillSettings(BaseModel):
    """What a run may see of earlier ones; fixed when it is created and stored with it."""

    model_config = ConfigDict(frozen=True)

    injection: float = Field(
        default=DEFAULT_INJECTION,
        ge=0,
        le=1,
        description="share of the nodes whose prompts show skills; the others stay clean",
    )
    problem_class: ProblemClass | None = Field(default=None, description="None: it was not needed at the start")
    skills: tuple[SkillReference, ...] = Field(default=(), description="the most similar first")
    transfers: tuple[TransferReference, ...] = Field(default=(), description="the most similar first")
