"""Settings of a search: everything that a run must be told again to be continued."""

from __future__ import annotations

from pydantic import ConfigDict, Field

from kernelevolve.operators.llm.settings import WritingSettings
from kernelevolve.search.ledger import Budget
from kernelevolve.skills import SkillSettings
from kernelevolve.workers.sandbox import Sandbox


class SearchSettings(SkillSettings):
    """How one run searches, and what it may see of earlier ones. Stored with the run."""

    model_config = ConfigDict(frozen=True)

    budget: Budget
    policy: str = Field(description="name of a registered selection policy")
    operators: tuple[str, ...] = Field(description="names of registered operators")
    writing: WritingSettings | None = Field(default=None, description="the language models; null: none is asked")
    recording: str | None = Field(default=None, description="directory of the run whose programs are judged again")
    sandbox: Sandbox = Field(default=Sandbox.AUTO, description="how candidates are shut in, also when it is continued")
    conversations: int = Field(default=1, ge=1, description="operators that are asked at once")
    seed: int = Field(default=0, description="determines every proposal of a run with one worker")
    workers: int = Field(default=1, ge=1, description="candidates in work at once; a device times one at a time")
    quick_trials: int = Field(default=16, ge=0, description="timings in the numeric search of a promising candidate")
    full_trials: int = Field(
        default=80, ge=0, description="timings of a finalist's numeric search, the quick ones included"
    )
    promising: float = Field(default=1.5, ge=1, description="tuned only if within this factor of the incumbent's time")
    finalists: int = Field(default=3, ge=1, description="distinct programs that are tuned fully and may be promoted")
    roofline_target: float | None = Field(default=None, gt=0, description="stop at this fraction of the roofline")
    stagnation: int | None = Field(default=None, gt=0, description="stop after so many nodes without a better one")


def default_policy(evaluations: int) -> str:
    """What the evidence favours for a budget: exploit when it is small, keep variety only when it is large."""
    if evaluations <= 40:
        return "greedy"
    return "beam" if evaluations <= 150 else "map-elites"
