"""Analysis: what somebody made of the evidence before a program is written; words, not findings."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict, Field

from kernelevolve.profilers.diagnosis import Bottleneck


class Analysis(BaseModel):
    """A bottleneck diagnosis in words, by a language model or a person."""

    model_config = ConfigDict(frozen=True)

    bottleneck: Bottleneck = Field(description="what limits the program, or what would limit a good one")
    cause: str = Field(description="why, in one or two sentences that name the lines or the evidence")
    evidence: list[str] = Field(default_factory=list, description="the numbers or messages that this rests on")
    ideas: list[str] = Field(default_factory=list, description="changes that would remove the cause, the best first")
    questions: list[str] = Field(
        default_factory=list, description="what to look up in the knowledge base, a few technical keywords each"
    )
