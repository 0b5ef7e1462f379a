"""Tolerance policy: how much error a candidate may have, derived from the error of the reference itself."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict, Field


class TolerancePolicy(BaseModel):
    """Limits on a candidate's error against the fp64 golden output (all factors are dimensionless).

    With ``e_ref`` the error of the reference in its stated dtype against the golden, ``eps`` the machine epsilon of
    the output dtype, but at most that of fp32, in which narrower kernels accumulate, and ``rms`` the root mean square
    of the golden, ``n`` 1 or, if more, an eighth of the root of how many input elements there are to one of the output:

    * rms error <= max(k * rms(e_ref), floor * eps * n * rms(golden))
    * max error <= max(k_max * max(e_ref), floor_max * eps * n * max|golden|)
    * rms error <= moved_fraction * rms(golden(x1) - golden(x2)), the part of the output that the inputs move
    """

    model_config = ConfigDict(frozen=True)

    k: float = Field(default=4.0, gt=0, description="factor on the rms error of the reference")
    k_max: float = Field(default=8.0, gt=0, description="factor on the largest error of the reference")
    floor: float = Field(default=4.0, gt=0, description="rms floor in units of eps * rms(golden)")
    floor_max: float = Field(default=16.0, gt=0, description="max floor in units of eps * max|golden|")
    moved_fraction: float = Field(default=0.05, gt=0, lt=1, description="share of the moved part that may be error")
