"""Evaluation: one candidate judged, its numbers tuned, and the winning numbers judged again."""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

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
    start: Config | None = None
    """A parent's configuration: the numeric search begins at its projection."""
    trials: int = 0
    """Timings allowed in the numeric search, those in ``earlier`` included."""
    threshold: float = float("-inf")
    """The fitness from which on tuning is worth its time; -inf: whatever is correct, as for a draft."""
    earlier: tuple[Timing, ...] = ()
    """Trials of this program that a numeric search continues."""
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
    device_seconds: float = 0.0


@dataclass(slots=True)
class Evaluator:
    """Judges candidates for the engine; called from several slots at once.

    ``on_trial`` hears of each timing, ``expired`` says when no further one may begin, ``is_duplicate`` whether an
    artifact was already built from an earlier program.
    """

    judge: Judge
    on_trial: Callable[[Timing], None]
    expired: Callable[[], bool]
    is_duplicate: Callable[[str], bool] = field(default=lambda artifact: False)

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
        if self._worth_tuning(verdict):
            for candidate in self._tuned(best):
                if self._evaluator.expired():
                    break
                found = self._judge(candidate, Effort.SCREEN)
                if found.correct:
                    if fitness(found) > fitness(verdict):
                        best, verdict = candidate, found
                    break
        return Outcome(best, verdict, tuple(self._trials), self._device_seconds)

    def _worth_tuning(self, verdict: Verdict) -> bool:
        return (
            verdict.correct
            and self._request.trials > len(self._request.earlier)
            and fitness(verdict) >= self._request.threshold
            and not (verdict.artifact_key is not None and self._evaluator.is_duplicate(verdict.artifact_key))
        )

    def _tuned(self, candidate: Candidate) -> Sequence[Candidate]:
        """The program at the best configurations that a numeric search finds, best first; without its present one."""
        request, evaluator = self._request, self._evaluator
        try:
            space = read_space(candidate.source)
        except InvalidCandidate:
            return ()
        if space.size() < 2:
            return ()

        def evaluate(config: Config) -> float:
            verdict = self._judge(candidate.with_config(config), Effort.TUNE)
            seconds = verdict.seconds
            self._trials.append((config, seconds))
            evaluator.on_trial((config, seconds))
            return math.inf if seconds is None else seconds

        earlier = [(config, math.inf if seconds is None else seconds) for config, seconds in request.earlier]
        report = tune(
            space, candidate.config, evaluate, limit=request.trials, rng=random.Random(candidate.source_digest),
            earlier=earlier, seeds=[request.start] if request.start else [], expired=evaluator.expired,
        )  # fmt: skip
        ranked = [config for config in report.ranked() if config != candidate.config]
        return [candidate.with_config(config) for config in ranked[:_CONFIRMATIONS]]

    def _judge(self, candidate: Candidate, effort: Effort) -> Verdict:
        """The judge's verdict, asked for a second time if the judge or the machine failed."""
        for _ in range(2):
            verdict = self._evaluator.judge.evaluate(candidate, effort)
            self._device_seconds += verdict.seconds_running
            if verdict.kind is not VerdictKind.INFRASTRUCTURE:
                break
        return verdict
