"""Certificate: the evidence for one claim, complete enough to be checked by someone who trusts nobody."""

from __future__ import annotations

import random
from collections.abc import Mapping

from pydantic import BaseModel, ConfigDict, Field

from kernelevolve.candidates import Candidate
from kernelevolve.hashing import digest_bytes, digest_json
from kernelevolve.judge.statistics import combine, speedup
from kernelevolve.judge.verdict import Samples, Speedup, Verdict
from kernelevolve.problems import Problem

_AGREEMENT = 1e-9


class Certificate(BaseModel):
    """What was claimed, of which program, on which problem, and the raw samples that it rests on."""

    model_config = ConfigDict(frozen=True)

    format: int = 1
    problem: str
    problem_digest: str = Field(description="hash of everything that says what is computed and how it is judged")
    candidate_digest: str = Field(description="hash of source and configuration")
    kernel_digest: str = Field(description="SHA-256 of the kernel file as written beside this certificate")
    environment: dict[str, str]
    environment_digest: str
    device: str
    baseline_seconds: dict[str, float] = Field(description="seconds per call, geometric mean over workloads")
    candidate_seconds: float
    speedups: tuple[Speedup, ...]
    samples: tuple[Samples, ...] = Field(description="every raw time that the figures rest on")
    verdict: Verdict = Field(description="the promotion, without its samples")

    def inconsistencies(self, kernel: str | None = None) -> list[str]:
        """What does not follow from the certificate's own samples and hashes; empty if all of it does."""
        found = []
        if digest_json(self.environment) != self.environment_digest:
            found.append("the environment was changed")
        if kernel is not None and digest_bytes(kernel.encode()) != self.kernel_digest:
            found.append("the kernel file is not the one that was measured")
        for claimed in self.speedups:
            again = recompute(self.samples, claimed)
            if again is None:
                found.append(f"there are no samples for the speed-up over {claimed.baseline} ({claimed.clock})")
            elif abs(again - claimed.value) > _AGREEMENT * claimed.value:
                found.append(f"the speed-up over {claimed.baseline} is {again:.6g} by the samples, not {claimed.value:.6g}")
        return found


def recompute(samples: tuple[Samples, ...], claim: Speedup) -> float | None:
    """The value of a speed-up by the samples alone; None if samples are missing."""
    mine = {s.workload: s for s in samples if s.program == "candidate" and s.clock == claim.clock}
    theirs = {s.workload: s for s in samples if s.program == claim.baseline and s.clock == claim.clock}
    if not mine or set(mine) != set(theirs):
        return None
    rng = random.Random(0)
    return combine([speedup(theirs[w], mine[w], rng=rng) for w in mine]).value


def make_certificate(problem: Problem, candidate: Candidate, kernel: str, verdict: Verdict) -> Certificate:
    """The certificate of a promoted candidate; ``kernel`` is the text of the file that is handed out.

    Raises ValueError if the verdict holds no measurement.
    """
    measurement = verdict.measurement
    if measurement is None:
        raise ValueError("a verdict without a measurement certifies nothing")
    environment: Mapping[str, str] = measurement.environment
    baselines = {s.program for s in measurement.samples} - {"candidate"}
    return Certificate(
        problem=problem.name,
        problem_digest=problem.digest,
        candidate_digest=candidate.id,
        kernel_digest=digest_bytes(kernel.encode()),
        environment=dict(environment),
        environment_digest=digest_json(dict(environment)),
        device=environment.get("device", ""),
        baseline_seconds={name: measurement.seconds(name) for name in sorted(baselines)},
        candidate_seconds=measurement.seconds(),
        speedups=measurement.speedups,
        samples=measurement.samples,
        verdict=verdict.model_copy(update={"measurement": None}),
    )
