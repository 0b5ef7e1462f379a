"""What the store keeps of a run besides its nodes."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import Any

from pydantic import BaseModel, ConfigDict, Field

from kernelevolve.problems import Problem
from kernelevolve.search.node import Node


class RunStatus(StrEnum):
    """Where a run stands. A process that was killed leaves its run ``running``."""

    RUNNING = "running"
    INTERRUPTED = "interrupted"
    FINISHED = "finished"


class RunRecord(BaseModel):
    """One run as stored: enough to continue it in another process."""

    model_config = ConfigDict(frozen=True)

    id: str = Field(description="e.g. '20261202-rmsnorm-3f2a'")
    created: datetime
    problem: Problem
    target: str
    device: str = Field(description="name of the device that the run began on")
    settings: dict[str, Any] = Field(description="the settings of the search, JSON values")
    status: RunStatus = RunStatus.RUNNING
    reason: str = Field(default="", description="why the search ended; empty while it runs")
    baselines: dict[str, float | None] = Field(
        default_factory=dict, description="seconds per call of each baseline at the start; None: it could not run"
    )


class Checkpoint(BaseModel):
    """What the nodes alone do not tell of a search; written in the transaction that writes a node."""

    model_config = ConfigDict(frozen=True)

    policy: dict[str, Any] = Field(default_factory=dict, description="state_dict of the selection policy")
    bandit: dict[str, Any] = Field(default_factory=dict, description="state_dict of the bandit over operators")
    ledger: dict[str, float] = Field(default_factory=dict, description="what was spent")
    issued: int = Field(default=0, description="questions put to operators so far: the next one's random stream")


@dataclass(frozen=True, slots=True)
class StoredNode:
    """A node with what dedup and plots need to know of it."""

    node: Node
    own_structure: str
    """``structure_key`` of its own source; ``node.structure`` is another's if both built into the same artifact."""
    artifact: str | None
    """``Verdict.artifact_key``."""
    elapsed: float = field(default=0.0)
    """Seconds of the run's own clock at which it was inserted."""
    proposal: int | None = None
    """Number of the question that it answers; None if it answers none."""
