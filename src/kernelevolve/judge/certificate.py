"""Certificate: the evidence for one verdict, complete enough to be checked by someone who trusts nobody.

It holds the raw samples, and ``check_consistency`` computes every figure from them again with the code that made it.
That shows that the figures follow from the samples and the files; that the samples were taken as stated rests on
whoever ran the judge, and on running it again.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from pathlib import Path

from pydantic import BaseModel, ConfigDict, Field

from kernelevolve.candidates import Candidate
from kernelevolve.candidates.space import Config
from kernelevolve.candidates.structure import materialise
from kernelevolve.hashing import digest_bytes, digest_json
from kernelevolve.judge.cases import SEED, SEED_COMMITMENT, seed_commitment
from kernelevolve.judge.statistics import TWIN_SUFFIX, combine, noise_floors, speedup
from kernelevolve.judge.verdict import Clock, Measurement, Samples, Speedup, Verdict
from kernelevolve.languages import LANGUAGES
from kernelevolve.problems import Problem, TolerancePolicy

_CANDIDATE = "candidate"
_RELATIVE = 1e-9
"""Figures are recomputed with the code that made them; only the last bits may differ, with another NumPy."""


class ProblemIdentity(BaseModel):
    """Which problem it was."""

    model_config = ConfigDict(frozen=True)

    name: str
    digest: str = Field(description="hash of everything that says what is computed and how it is judged")
    overrides: dict[str, int | float | str | bool] = Field(description="constants of the file that were replaced")
    tolerance: TolerancePolicy


class CandidateIdentity(BaseModel):
    """Which program it was."""

    model_config = ConfigDict(frozen=True)

    id: str = Field(description="hash of source and configuration")
    kernel_digest: str = Field(description="SHA-256 of the text with its configuration written in: the kernel file")
    language: str
    config: Config


class Certificate(BaseModel):
    """What was found about which program, on which problem and machine, and the raw samples that it rests on."""

    model_config = ConfigDict(frozen=True)

    format: int = 1
    problem: ProblemIdentity
    candidate: CandidateIdentity
    environment: dict[str, str] = Field(
        description="versions, compiler, threads, precision policy, isolation, load, seed"
    )
    environment_digest: str
    device: str
    candidate_seconds: float = Field(description="seconds per call, geometric mean over the timed workloads")
    baseline_seconds: dict[str, float] = Field(description="the same of every baseline, timed side by side with it")
    noise_floors: dict[Clock, float] = Field(
        description="|ratio - 1| of a baseline timed twice, mean over workloads, by clock; empty if none was"
    )
    faster: bool = Field(description="True if the promotion beat every baseline by more than noise, interval included")
    verdict: Verdict = Field(description="complete: samples, speed-ups, errors with their limits, rooflines")

    def check_consistency(self, problem: Problem | None = None, kernel: str | None = None) -> list[str]:
        """One sentence for everything that does not follow from the samples, or from the files if they are given.

        ``problem`` is the problem file, loaded with the same overrides; ``kernel`` is the text of the kernel file.
        An empty list means that all of it does.
        """
        return [*self._identity_faults(problem, kernel), *self._figure_faults(), *self._claim_faults()]

    @property
    def _measurement(self) -> Measurement:
        measurement = self.verdict.measurement
        assert measurement is not None, "make_certificate refuses a verdict without one"
        return measurement

    def _identity_faults(self, problem: Problem | None, kernel: str | None) -> Iterator[str]:
        if digest_json(self.environment) != self.environment_digest:
            yield "the environment is not the one that was recorded"
        if seed_commitment(self.environment.get(SEED, "")) != self.environment.get(
            SEED_COMMITMENT, seed_commitment("")
        ):
            yield "the seed of the inputs is not the one that was committed to"
        if self.verdict.candidate_id != self.candidate.id:
            yield "the verdict is about another candidate"
        if problem is not None and problem.digest != self.problem.digest:
            yield "the problem is not the one that was judged"
        if kernel is not None and digest_bytes(kernel.encode()) != self.candidate.kernel_digest:
            yield "the kernel file is not the one that was measured"

    def _figure_faults(self) -> Iterator[str]:
        samples = self._measurement.samples
        seconds = {_CANDIDATE: self.candidate_seconds, **self.baseline_seconds}
        if set(seconds) != set(_programs(samples)):
            yield "the programs with a time are not those with samples"
            return
        for program, claimed in seconds.items():
            if not _close(self._measurement.seconds(program), claimed):
                yield f"the time of {program} does not follow from its samples"
        recomputed = {(s.baseline, s.clock): s for s in _speedups(samples)}
        if recomputed.keys() != {(s.baseline, s.clock) for s in self._measurement.speedups}:
            yield "a baseline that was timed has no speed-up, or one that was not timed has"
            return
        for claim in self._measurement.speedups:
            again = recomputed[claim.baseline, claim.clock]
            pairs = ((again.value, claim.value), (again.low, claim.low), (again.high, claim.high))
            if not all(_close(a, b) for a, b in pairs):
                yield (
                    f"the speed-up over {claim.baseline} by {claim.clock} time is {again.value:.6g} "
                    f"({again.low:.6g} to {again.high:.6g}) by the samples, not {claim.value:.6g} "
                    f"({claim.low:.6g} to {claim.high:.6g})"
                )
        for roofline in self.verdict.rooflines:
            timed = _by_first_clock(samples, roofline.workload)
            if timed is None or not _close(roofline.floor_seconds / timed.seconds, roofline.fraction or 0.0):
                yield f"the fraction of the roofline on {roofline.workload} does not follow from the samples"

    def _claim_faults(self) -> Iterator[str]:
        floors = noise_floors(self._measurement.samples)
        for stated in (self.noise_floors, self._measurement.noise_floors):
            if stated.keys() != floors.keys() or not all(_close(floors[clock], stated[clock]) for clock in floors):
                yield "the noise floor does not follow from the samples of the baseline that was timed twice"
        if self.faster != self.verdict.wins:
            yield f"by the samples it is {'not ' if self.faster else ''}faster than every baseline by more than noise"
        if self.verdict.correct and not all(error.passed for error in self.verdict.errors):
            yield "the verdict is correct, but an error is over its limit"


def make_certificate(
    problem: Problem, candidate: Candidate, verdict: Verdict, environment: Mapping[str, str] | None = None
) -> Certificate:
    """The certificate of a candidate that was timed.

    ``environment`` adds to what the measurement recorded. Raises ValueError if the verdict holds no measurement.
    """
    measurement = verdict.measurement
    if measurement is None:
        raise ValueError("a verdict without a measurement certifies nothing")
    found = {**measurement.environment, "language": _tool(candidate.language), **(environment or {})}
    programs = [program for program in _programs(measurement.samples) if program != _CANDIDATE]
    return Certificate(
        problem=ProblemIdentity(
            name=problem.name, digest=problem.digest, overrides=problem.overrides, tolerance=problem.tolerance
        ),
        candidate=CandidateIdentity(
            id=candidate.id, kernel_digest=digest_bytes(materialise(candidate).encode()), language=candidate.language,
            config=candidate.config,
        ),
        environment=found,
        environment_digest=digest_json(found),
        device=found.get("device", ""),
        candidate_seconds=measurement.seconds(),
        baseline_seconds={program: measurement.seconds(program) for program in programs},
        noise_floors=measurement.noise_floors,
        faster=verdict.wins,
        verdict=verdict,
    )  # fmt: skip


def write_certificate(problem: Problem, candidate: Candidate, verdict: Verdict, path: Path) -> Certificate:
    """Make the certificate and write it as JSON."""
    certificate = make_certificate(problem, candidate, verdict)
    path.write_text(certificate.model_dump_json(indent=1) + "\n")
    return certificate


def _tool(language: str) -> str:
    """The language with the version of its compiler, e.g. ``cpp: g++ 12.2.0``."""
    return f"{language}: {LANGUAGES.get(language).availability().version or 'unknown version'}"


def _programs(samples: tuple[Samples, ...]) -> list[str]:
    """Timed programs, without second runs of a baseline."""
    return list(dict.fromkeys(s.program for s in samples if not s.program.endswith(TWIN_SUFFIX)))


def _speedups(samples: tuple[Samples, ...]) -> Iterator[Speedup]:
    """Over every baseline and by every clock that has samples on all workloads of the candidate."""
    by_key = {(s.program, s.workload, s.clock): s for s in samples}
    mine = [s for s in samples if s.program == _CANDIDATE]
    for program in _programs(samples):
        for clock in dict.fromkeys(s.clock for s in mine):
            pairs = [(by_key.get((program, s.workload, clock)), s) for s in mine if s.clock == clock]
            if program != _CANDIDATE and all(theirs is not None for theirs, _ in pairs):
                yield combine([speedup(theirs, own) for theirs, own in pairs if theirs is not None])


def _by_first_clock(samples: tuple[Samples, ...], workload: str) -> Samples | None:
    """The candidate's samples on a workload: by device time where there is one."""
    mine = {s.clock: s for s in samples if s.program == _CANDIDATE and s.workload == workload}
    return mine.get(Clock.DEVICE, mine.get(Clock.WALL))


def _close(a: float, b: float) -> bool:
    return math.isclose(a, b, rel_tol=_RELATIVE)
