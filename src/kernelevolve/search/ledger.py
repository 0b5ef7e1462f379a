"""Ledger: what a run may spend, has spent, and has promised to work in flight."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from pydantic import BaseModel, ConfigDict, Field

from kernelevolve.operators.purse import Money, Purse
from kernelevolve.prompting import BudgetLeft

_SEARCH_SHARE, _FINALISTS_SHARE = 0.7, 0.85
"""Parts of the wall time after which the search, then the finalists' tuning, start nothing new: the rest is kept for
the promotion, without which a run has nothing to show."""


class Budget(BaseModel):
    """Hard limits of a run, over all the processes that continue it."""

    model_config = ConfigDict(frozen=True)

    evaluations: int = Field(gt=0, description="judged nodes; timings of a program's configurations count apart")
    seconds: float = Field(gt=0, description="wall time, without the pauses between processes")
    tokens: int | None = Field(default=None, gt=0, description="of language models, questions and answers together")
    dollars: float | None = Field(default=None, gt=0, description="for language models")

    @property
    def kept_evaluations(self) -> int:
        """Evaluations that the search leaves for re-tuned finalists: one in ten, at most three."""
        return min(3, self.evaluations // 10)

    def cost(self, tokens: int, dollars: float) -> float:
        """What an evaluation costs whose program took so much to be written, in evaluations.

        Each limit of the run is worth the same: a tenth of the dollars is worth a tenth of the evaluations.
        """
        shares = [tokens / self.tokens if self.tokens else 0.0, dollars / self.dollars if self.dollars else 0.0]
        return 1.0 + self.evaluations * max(shares)

    @property
    def search_until(self) -> float:
        """Seconds after which the search starts nothing new."""
        return self.seconds * _SEARCH_SHARE

    @property
    def finalists_until(self) -> float:
        """Seconds after which no finalist is tuned any more."""
        return self.seconds * _FINALISTS_SHARE


@dataclass(frozen=True, slots=True)
class Spent:
    """A reading of the ledger."""

    evaluations: int = 0
    in_flight: int = 0
    """Evaluations promised to work that has not ended."""
    trials: int = 0
    seconds: float = 0.0
    """Wall time of all processes of the run."""
    device_seconds: float = 0.0
    """Time in which the judge ran programs; more than one build may fit into one of them."""
    money: Money = field(default_factory=Money)
    """Spent on language models."""
    tokens_in_flight: int = 0
    """Set aside for requests that have not ended; estimated."""
    dollars_in_flight: float = 0.0


class Account:
    """One kind of spending with a hard limit: what is promised counts as spent until it is settled or given back."""

    def __init__(self, limit: int, spent: int = 0) -> None:
        self.limit = limit
        self.spent = spent
        self.committed = 0

    def commit(self, *, keep: int = 0) -> bool:
        """Promise one unit; False, and nothing promised, if then fewer than ``keep`` were left below the limit."""
        if self.spent + self.committed + keep >= self.limit:
            return False
        self.committed += 1
        return True

    def settle(self) -> None:
        """A promised unit was spent."""
        self._end_promise()
        self.spent += 1

    def release(self) -> None:
        """A promised unit was not needed."""
        self._end_promise()

    def _end_promise(self) -> None:
        if self.committed == 0:
            raise RuntimeError("nothing is committed")
        self.committed -= 1


class Ledger:
    """The accounts of one run. Used by the engine's own thread only.

    Evaluations cannot exceed the budget, whatever is in flight. Wall time can, by the one evaluation that each slot
    had begun when the time ran out.
    """

    def __init__(
        self,
        budget: Budget,
        earlier: Mapping[str, Any] | None = None,
        clock: Callable[[], float] = time.monotonic,
        money: Money | None = None,
    ) -> None:
        earlier = earlier or {}
        self.budget = budget
        self.evaluations = Account(budget.evaluations, int(earlier.get("evaluations", 0)))
        self.trials = int(earlier.get("trials", 0))
        self.device_seconds = float(earlier.get("device_seconds", 0.0))
        self.purse = Purse(budget.tokens, budget.dollars, money)
        """Model money: an account of its own, which other threads pay from too."""
        self._earlier_seconds = float(earlier.get("seconds", 0.0))
        self._clock = clock
        self._started = clock()

    @property
    def seconds(self) -> float:
        """Wall seconds of the run so far, those of earlier processes included."""
        return self._earlier_seconds + self._clock() - self._started

    def left(self) -> BudgetLeft:
        """What the search may still spend, without what is kept for the finale."""
        return BudgetLeft(
            max(0, self.budget.evaluations - self.budget.kept_evaluations - self.evaluations.spent),
            max(0.0, self.budget.search_until - self.seconds),
        )

    def deadline(self, seconds: float) -> float:
        """The monotonic-clock reading at which the run will be ``seconds`` old."""
        return self._started + seconds - self._earlier_seconds

    def count_trial(self) -> None:
        """One configuration was timed."""
        self.trials += 1

    def count_device_seconds(self, seconds: float) -> None:
        """The judge ran programs for so long."""
        self.device_seconds += seconds

    def reading(self) -> Spent:
        """The state as events show it."""
        flying = self.purse.promised
        return Spent(
            self.evaluations.spent, self.evaluations.committed, self.trials, self.seconds, self.device_seconds,
            self.purse.spent, flying.tokens, flying.dollars,
        )  # fmt: skip

    def state_dict(self) -> dict[str, float]:
        """What a later process must know; promises end with the process that made them."""
        return {
            "evaluations": self.evaluations.spent,
            "trials": self.trials,
            "seconds": self.seconds,
            "device_seconds": self.device_seconds,
        }
