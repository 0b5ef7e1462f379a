"""Evaluation: one candidate judged, its numbers tuned, and the winning numbers judged again."""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from kernelevolve.candidates import Candidate, Config
from kernelevolve.candidates.structure import read_space
from kernelevolve.errors import InvalidCandidate
from kernelevolve.judge.protocol import Judge
from kernelevolve.judge.verdict import Effort, Verdict, VerdictKind
from kernelevolve.search.fitness import fitness
from kernelevolve.store import Timing
from kernelevolve.tuning.nested import tune

_CONFIRMATIONS = 2
"""Configurations that are put to the full check after tuning: the best, and the next if the best turns out wrong."""


@dataclass(frozen=True, slots=True)
class Request:
    """One candidate to be judged."""

    candidate: Candidate
    inherited: tuple[Config, ...] = ()
    """Configurations of its parents: the numeric search tries their projections early."""
    trials: int = 0
    """Timings allowed in the numeric search, those in ``earlier`` included."""
    threshold: float = float("-inf")
    """The fitness from which on tuning is worth its time; -inf: whatever is correct, as for a draft."""
    earlier: tuple[Timing, ...] = ()
    """Trials of this program that the numeric search continues."""
    known: Verdict | None = None
    """A screen of this very candidate that need not be repeated."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """What came of a request."""

    candidate: Candidate
    """The program at the configuration that was kept."""
    verdict: Verdict
    trials: tuple[Timing, ...] = ()
    """The new ones, without ``Request.earlier``."""
    artifact: str | None = None
    """What the program built into at the configuration that it was proposed with; None if it is not correct."""
    device_seconds: float = 0.0


@dataclass(frozen=True, slots=True)
class Evaluator:
    """Judges candidates for the engine; called from several slots at once."""

    judge: Judge
    seed: int
    on_trial: Callable[[Timing], None]
    """Hears of each timing, in the slot's thread."""
    expired: Callable[[], bool]
    """True when no further configuration may be timed."""
    is_duplicate: Callable[[str], bool]
    """True if an earlier program built into this artifact."""

    def evaluate(self, request: Request) -> Outcome:
        """Screen; if correct, promising, new and tunable: time other configurations and screen the best of them."""
        return _Evaluation(self, request).run()


class _Evaluation:
    """One request in work."""

    def __init__(self, evaluator: Evaluator, request: Request) -> None:
        self._evaluator = evaluator
        self._request = request
        self._trials: list[Timing] = []
        self._device_seconds = 0.0

    def run(self) -> Outcome:
        request = self._request
        best, verdict = request.candidate, request.known or self._judge(request.candidate, Effort.SCREEN)
        artifact = verdict.artifact_key if verdict.correct else None
        if self._worth_tuning(verdict):
            for candidate in self._tuned(best):
                found = self._judge(candidate, Effort.SCREEN)
                if found.correct:
                    if fitness(found) > fitness(verdict):
                        best, verdict = candidate, found
                    break
        return Outcome(best, verdict, tuple(self._trials), artifact, self._device_seconds)

    def _worth_tuning(self, verdict: Verdict) -> bool:
        request, artifact = self._request, verdict.artifact_key
        if request.known is None and artifact is not None and self._evaluator.is_duplicate(artifact):
            return False
        return verdict.correct and request.trials > len(request.earlier) and fitness(verdict) >= request.threshold

    def _tuned(self, candidate: Candidate) -> Sequence[Candidate]:
        """The program at the best configurations that a numeric search finds, best first, if they beat the present one.

        Timings of a tuning are compared with each other only: they are shorter than those of a screen.
        """
        request, evaluator = self._request, self._evaluator
        try:
            space = read_space(candidate.source)
        except InvalidCandidate:
            return ()
        if space.size() < 2:
            return ()

        def evaluate(config: Config) -> float:
            seconds = self._judge(candidate.with_config(config), Effort.TUNE).seconds
            self._trials.append((config, seconds))
            evaluator.on_trial((config, seconds))
            return math.inf if seconds is None else seconds

        earlier = [(config, math.inf if seconds is None else seconds) for config, seconds in request.earlier]
        rng = random.Random(f"{evaluator.seed}/{candidate.source_digest}")
        report = tune(
            space, candidate.config, evaluate, limit=request.trials, rng=rng, earlier=earlier, seeds=request.inherited,
            expired=evaluator.expired,
        )  # fmt: skip
        ranked = report.ranked()
        if candidate.config in ranked:
            ranked = ranked[: ranked.index(candidate.config)]
        return [candidate.with_config(config) for config in ranked[:_CONFIRMATIONS]]

    def _judge(self, candidate: Candidate, effort: Effort) -> Verdict:
        verdict = judge_twice(self._evaluator.judge, candidate, effort)
        self._device_seconds += verdict.seconds_running
        return verdict


def judge_twice(judge: Judge, candidate: Candidate, effort: Effort) -> Verdict:
    """The verdict, asked for once more if the judge or the machine failed the first time."""
    verdict = judge.evaluate(candidate, effort)
    if verdict.kind is VerdictKind.INFRASTRUCTURE:
        verdict = judge.evaluate(candidate, effort)
    return verdict
