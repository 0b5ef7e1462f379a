"""LocalJudge: judges candidates of one problem with the device of this machine."""

from __future__ import annotations

import random
import secrets
import traceback
from collections.abc import Sequence
from dataclasses import replace
from math import prod
from pathlib import Path

from kernelevolve.candidates import Candidate
from kernelevolve.errors import InvalidRequest, KernelEvolveError
from kernelevolve.judge.bench import Bench
from kernelevolve.judge.diagnosis import diagnose_facts, facts_of
from kernelevolve.judge.evaluation import Evaluation
from kernelevolve.judge.profiling import profile
from kernelevolve.judge.settings import JudgeSettings
from kernelevolve.judge.verdict import Effort, Verdict, VerdictKind
from kernelevolve.problems import Problem, Role
from kernelevolve.profilers import Diagnosis
from kernelevolve.targets import Target

_LIKELY_SECONDS = 0.1
"""Of a call that was not timed, to choose how many are profiled."""
_ATTEMPTS = 2
"""An evaluation that failed through no fault of the candidate is repeated once."""


class LocalJudge:
    """Implements ``judge.protocol.Judge``.

    ``workspace`` holds scratch directories and the compile cache of the baselines. Raises KernelEvolveError if the
    problem cannot be loaded or the target cannot be measured; afterwards ``evaluate`` never raises.
    """

    def __init__(
        self, problem: Problem, target: Target, *, workspace: Path, settings: JudgeSettings | None = None
    ) -> None:
        self.settings = settings or JudgeSettings()
        self._bench = Bench(problem, target, workspace, self.settings)
        self._best: dict[str, float] = {}
        self._bench.start_baselines()

    def evaluate(self, candidate: Candidate, effort: Effort = Effort.SCREEN) -> Verdict:
        """The verdict on one candidate. May be called from several threads."""
        verdict = self._attempt(candidate, effort)
        for _ in range(_ATTEMPTS - 1):
            if verdict.kind is not VerdictKind.INFRASTRUCTURE:
                break
            verdict = self._attempt(candidate, effort)
        return verdict

    def _attempt(self, candidate: Candidate, effort: Effort) -> Verdict:
        seed = self.settings.seed
        rng = random.Random(secrets.randbits(64) if seed is None else seed)
        evaluation = Evaluation(self._bench, candidate, effort, self._best, rng)
        try:
            return evaluation.run()
        except Exception as error:
            return self._failed(evaluation, error)

    @staticmethod
    def _failed(evaluation: Evaluation, error: Exception) -> Verdict:
        """The verdict of an evaluation that failed by itself; called while the error is being handled."""
        sentence = error.sentence if isinstance(error, KernelEvolveError) else f"{type(error).__name__}: {error}"
        return Verdict(
            candidate_id=evaluation.candidate.id,
            kind=VerdictKind.INFRASTRUCTURE,
            stage=evaluation.stage,
            effort=evaluation.effort,
            reason=" ".join(sentence.split())[:500],
            detail=traceback.format_exc(limit=-8),
        )

    def build(self, candidate: Candidate) -> Verdict | None:
        """What an evaluation would end with before anything is timed; None if it would go on from there."""
        evaluation = Evaluation(self._bench, candidate, Effort.TUNE, self._best, random.Random(secrets.randbits(64)))
        try:
            return evaluation.build()
        except Exception as error:
            return self._failed(evaluation, error)

    def profile(
        self,
        candidate: Candidate,
        verdict: Verdict,
        *,
        workload: str | None = None,
        profilers: Sequence[str] | None = None,
    ) -> Diagnosis:
        """The diagnosis of a judged candidate on one workload: by default the slowest that was timed.

        A candidate that is wrong is profiled on the first workload. ``profilers`` are names, all that fit by default.
        Raises InvalidRequest if there is no such workload, ValueError if the candidate does not run.
        """
        if not verdict.ran:
            raise ValueError(f"a candidate that is {verdict.kind} cannot be profiled")
        known = {found.name: found for found in self._bench.workloads(*Role)}
        if workload is not None and workload not in known:
            raise InvalidRequest(f"there is no workload {workload!r}", fix=f"use one of: {', '.join(known)}")
        facts = facts_of(verdict, workload, self._bench.ceilings.launch_seconds)
        chosen = known.get(facts.workload) or self._bench.workloads(Role.SEARCH)[0]
        if facts.floor_seconds is None:
            with self._bench.lock.working():
                floor = self._bench.rooflines([chosen])[chosen.name]
            facts = replace(
                facts, workload=chosen.name, floor_seconds=floor.floor_seconds, floor_bound=floor.bound,
                bytes=floor.bytes, threads=self._bench.threads,
            )  # fmt: skip
        profiled = profile(self._bench, candidate, chosen, facts.wall_seconds or _LIKELY_SECONDS, profilers)
        return diagnose_facts(facts, profiled.evidence, profiled.ran, profiled.missing)

    def baselines(self) -> dict[str, float | None]:
        """Seconds per call of each named baseline, geometric mean over the search workloads; None if it cannot run."""
        timed = [self._bench.baseline_seconds(workload) for workload in self._bench.workloads(Role.SEARCH)]
        found: dict[str, float | None] = {}
        for name in self._bench.baseline_names:
            seconds = [times[name] for times in timed if name in times]
            found[name] = prod(seconds) ** (1 / len(seconds)) if timed and len(seconds) == len(timed) else None
        return found

    def unavailable_baselines(self) -> dict[str, str]:
        """Baselines that cannot run this problem, with the reason."""
        return self._bench.unavailable()

    def close(self) -> None:
        """End all worker processes."""
        self._bench.close()
