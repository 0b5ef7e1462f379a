"""WritingSettings: how language models are asked. Stored with the run."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict, Field

from kernelevolve.operators.llm.model_choice import ModelChoice
from kernelevolve.operators.llm.prices import Price
from kernelevolve.prompting import DEFAULT_TOKENS


class WritingSettings(BaseModel):
    """What a run was told of its models."""

    model_config = ConfigDict(frozen=True)

    models: tuple[ModelChoice, ...] = Field(min_length=1)
    price: Price | None = Field(default=None, description="of every model; null: as the price list says")
    prompt_tokens: int = Field(default=DEFAULT_TOKENS, gt=0, description="length of a prompt at most, estimated")
    answer_tokens: int = Field(default=16_000, gt=0, description="length of an answer at most")
    actions: int = Field(default=8, ge=0, description="uses of tools in one conversation")
    repairs: int = Field(default=2, ge=0, description="answers that may be sent back because they cannot be used")
    request_seconds: float = Field(default=300, gt=0, description="after which a request counts as failed")
    retry_seconds: float = Field(
        default=1.0, ge=0, description="before a failed request is repeated; doubled each time"
    )
    analyse: bool = Field(default=True, description="a diagnosis by the model before it changes a program")
