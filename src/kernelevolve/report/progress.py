"""Progress: the state of a run as its events tell it, without any drawing."""

from __future__ import annotations

import time
from collections import Counter, deque
from collections.abc import Callable

from kernelevolve.judge.verdict import Verdict
from kernelevolve.report import money
from kernelevolve.search.events import (
    BaselineMeasured,
    Event,
    IncumbentChanged,
    JudgeFailed,
    ModelUnavailable,
    NodeInserted,
    OperatorFailed,
    Phase,
    PhaseChanged,
    PromotionJudged,
    RunFinished,
    RunStarted,
    TrialMeasured,
)
from kernelevolve.search.ledger import Spent
from kernelevolve.search.node import Node

PHASE_WORDS = {
    Phase.BASELINES: "timing the baselines",
    Phase.SEARCH: "searching",
    Phase.FINALISTS: "tuning the finalists",
    Phase.PROMOTION: "strict re-test of the winner",
}
RECENT = 6
_PACE_NODES = 12
"""Evaluations over which the pace for the ETA is taken: the first ones are slower than the rest."""


class Progress:
    """A Listener that folds events into what a view shows."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._reading_at = clock()
        self._paces: deque[float] = deque(maxlen=_PACE_NODES + 1)
        self.started: RunStarted | None = None
        self.phase: Phase | None = None
        self.baselines: dict[str, float | None] = {}
        self.verdicts: Counter[str] = Counter()
        self.recent: deque[tuple[Node, Verdict]] = deque(maxlen=RECENT)
        self.best: tuple[Node, Verdict] | None = None
        self.promotions: list[PromotionJudged] = []
        self.judge_failures: list[str] = []
        self.model_failures: list[str] = []
        """What came to nothing of the questions to operators, a sentence each."""
        self.spent = Spent()
        self.trials = 0
        self.finished: RunFinished | None = None

    def on_event(self, event: Event) -> None:
        """Take one event in."""
        match event:
            case RunStarted():
                self.started = event
                self._read(event.spent)
            case PhaseChanged(phase):
                self.phase = phase
            case BaselineMeasured(name, seconds):
                self.baselines[name] = seconds
            case TrialMeasured():
                self.trials = event.trials
            case NodeInserted(node, verdict, spent):
                self.verdicts[node.kind.value] += 1
                self.recent.append((node, verdict))
                self._read(spent)
                self._paces.append(spent.seconds)
            case IncumbentChanged(node, verdict):
                self.best = (node, verdict)
            case PromotionJudged(node, verdict, accepted):
                self.promotions.append(event)
                if accepted:
                    self.best = (node, verdict)
            case ModelUnavailable(reason):
                self.model_failures.append(reason)
            case OperatorFailed(operator, error):
                self.model_failures.append(f"{operator}: {error}")
            case JudgeFailed(reason):
                self.judge_failures.append(reason)
            case RunFinished():
                self.finished = event
                self._read(event.spent)

    @property
    def seconds(self) -> float:
        """Wall seconds of the run until now: the last reading of its ledger and what has passed since."""
        passed = 0.0 if self.finished else self._clock() - self._reading_at
        return self.spent.seconds + passed

    @property
    def money_words(self) -> str:
        """What language models cost; '' if none was asked."""
        return "" if self.started is None else money.words(self.spent, self.started.budget)

    @property
    def money_share(self) -> float | None:
        """How much of the limit for them is used; None without a limit."""
        return None if self.started is None else money.share(self.spent, self.started.budget)

    @property
    def remaining_seconds(self) -> float | None:
        """Seconds until the run ends: at the pace of the last evaluations, but never beyond the budget of time."""
        if self.started is None:
            return None
        budget = self.started.budget
        remaining = max(0.0, budget.seconds - self.seconds)
        if self.phase is Phase.SEARCH and len(self._paces) > 1:
            pace = (self._paces[-1] - self._paces[0]) / (len(self._paces) - 1)
            open_evaluations = max(0, budget.evaluations - self.spent.evaluations)
            searching = max(0.0, min(open_evaluations * pace, budget.search_until - self.seconds))
            # What follows the search takes its share of the time that the search has taken.
            after = (self.seconds + searching) * (budget.seconds / budget.search_until - 1)
            remaining = min(remaining, searching + after)
        return remaining

    def _read(self, spent: Spent) -> None:
        self.spent = spent
        self.trials = max(self.trials, spent.trials)
        self._reading_at = self._clock()
