"""Workload: one concrete case on which a problem is judged."""

from __future__ import annotations

from enum import StrEnum

from pydantic import BaseModel, ConfigDict, Field


class Role(StrEnum):
    """When the judge uses a workload."""

    SEARCH = "search"
    """Every candidate is checked and timed on it."""
    HELD_OUT = "held_out"
    """Only a promotion sees it, so that a search cannot fit to it."""
    STRESS = "stress"
    """Only a promotion sees it; never timed (edge sizes, extreme values)."""


class Distribution(BaseModel):
    """How the floating inputs that ``get_inputs`` made are changed before use: ``x * scale + shift``.

    KernelBench draws from U[0, 1), where a quarter of its problems cannot tell right from wrong; shifted and
    re-scaled values restore the difference. Integer and bool tensors are never changed.
    """

    model_config = ConfigDict(frozen=True)

    scale: float = Field(default=1.0, description="factor applied to floating inputs")
    shift: float = Field(default=0.0, description="added to floating inputs after the factor")
    normal: bool = Field(default=False, description="replace the values by N(0, 1) draws of the same shape first")
    weight_scale: float = Field(default=1.0, description="factor applied to floating parameters and buffers")
    fresh_statistics: bool = Field(
        default=False, description="replace parameters and normalisation statistics by variance-preserving random ones"
    )

    @property
    def as_written(self) -> bool:
        """True if the inputs and weights are used just as the problem file makes them."""
        return self == Distribution()


class Workload(BaseModel):
    """One case: the arguments for ``get_inputs(**axes)``, how values are drawn, and when the judge uses it."""

    model_config = ConfigDict(frozen=True)

    name: str = Field(description="short and unique within the problem, e.g. 'b256' or 'as-written'")
    role: Role = Role.SEARCH
    axes: dict[str, int | float | str | bool] = Field(
        default_factory=dict, description="keyword arguments for get_inputs; empty for a plain KernelBench file"
    )
    dtype: str | None = Field(default=None, description="cast floating inputs and weights to this torch dtype name")
    distribution: Distribution = Distribution()
    contiguous: bool = Field(default=True, description="False: every input of two or more dimensions is a strided view")
    weight: float = Field(default=1.0, gt=0, description="share of this case in the fitness of a candidate")
