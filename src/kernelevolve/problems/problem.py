"""Problem: what to compute, as text. Nothing here runs the text; see ``instance`` for that."""

from __future__ import annotations

from functools import cached_property
from pathlib import Path

from pydantic import BaseModel, ConfigDict, Field

from kernelevolve.hashing import digest_json
from kernelevolve.problems.tolerance import TolerancePolicy


class Problem(BaseModel):
    """A PyTorch reference in the KernelBench format: ``Model``, ``get_inputs()``, ``get_init_inputs()``.

    Optional in the source, ours: ``get_workloads() -> list[Workload]``, ``TOLERANCE`` (a TolerancePolicy or dict),
    ``TRAINING = True``, ``LIBRARY(model, *inputs)`` (a library's way to compute what ``model(*inputs)`` does: an extra
    baseline). Two problems are the same problem if and only if their digests agree.
    """

    model_config = ConfigDict(frozen=True)

    name: str = Field(description="file stem, or the name of the function or module")
    source: str = Field(description="complete Python text of the reference")
    path: Path | None = Field(default=None, description="where the text was read from; used in messages only")
    overrides: dict[str, int | float | str | bool] = Field(
        default_factory=dict, description="module constants replaced before use, e.g. {'batch_size': 4} from --set"
    )
    payload: dict[str, Path] = Field(
        default_factory=dict, description="sha256 -> file that the source loads (a pickled module and its inputs)"
    )
    tolerance: TolerancePolicy = TolerancePolicy()

    @cached_property
    def digest(self) -> str:
        """Content hash over everything that changes what is computed or how it is judged (not path, not name)."""
        return digest_json(
            {
                "source": self.source,
                "overrides": self.overrides,
                "payload": sorted(self.payload),
                "tolerance": self.tolerance.model_dump(),
            }
        )
