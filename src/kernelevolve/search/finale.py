"""Finale: the best programs get the full numeric search, then the winner is put to the strict test."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

from kernelevolve.judge.protocol import Judge
from kernelevolve.judge.verdict import Effort, Verdict, VerdictKind
from kernelevolve.search.evaluation import Outcome, Request
from kernelevolve.search.node import Node
from kernelevolve.search.settings import SearchSettings
from kernelevolve.search.state import SearchState
from kernelevolve.store import Store

_LEAST_TRIALS_LEFT = 4


@dataclass(slots=True)
class Finale:
    """What remains to be done once the search has ended; asked again after a resume, it does only what is missing."""

    state: SearchState
    store: Store
    settings: SearchSettings
    judge: Judge

    def finalists(self) -> list[Node]:
        """The fittest node of each of the best few programs."""
        by_structure: dict[str, Node] = {}
        for node in self.state.ranked():
            by_structure.setdefault(node.structure, node)
        return list(by_structure.values())[: self.settings.finalists]

    def tuning_requests(self) -> list[tuple[Node, Request]]:
        """For every finalist whose numeric search can be continued, how."""
        requests = []
        for node in self.finalists():
            earlier = tuple(self.store.trials(self.state.run.id, node.id))
            if len(earlier) + _LEAST_TRIALS_LEFT > self.settings.full_trials:
                continue
            judged = self.state.judged(node.id)
            if judged.operator == "tune":
                continue
            requests.append(
                (
                    node,
                    Request(judged.candidate, trials=self.settings.full_trials, earlier=earlier, known=judged.verdict),
                )
            )
        return requests

    @staticmethod
    def improved(node: Node, outcome: Outcome) -> bool:
        """True if a numeric search ended at another, better configuration: that is a node of its own."""
        return outcome.candidate.id != node.candidate_id and outcome.verdict.correct

    def promote(self, on_judged: Callable[[Node, Verdict, bool], None], expired: Callable[[], bool]) -> Node | None:
        """Put finalists to the strict test until one is correct and faster than every baseline; that one.

        If none is, the best that is at least correct, which is then shown for what it is. ``expired`` stops it after
        the first test: a run has to end with one.
        """
        promoted = self.store.promotions(self.state.run.id)
        best: Node | None = None
        best_speed = -math.inf
        for node in self.finalists():
            verdict = promoted.get(node.id)
            if verdict is None:
                if promoted and expired():
                    break
                verdict = self._promotion(node)
                if verdict.kind is not VerdictKind.INFRASTRUCTURE:
                    self.store.append_verdict(self.state.run.id, node.id, verdict, self.state.checkpoint())
                    promoted[node.id] = verdict
                on_judged(node, verdict, verdict.wins)
            if verdict.wins:
                return node
            speed = min((s.value for s in verdict.speedups.values()), default=-math.inf)
            if verdict.correct and speed > best_speed:
                best, best_speed = node, speed
        return best

    def _promotion(self, node: Node) -> Verdict:
        candidate = self.state.judged(node.id).candidate
        verdict = self.judge.evaluate(candidate, Effort.PROMOTION)
        if verdict.kind is VerdictKind.INFRASTRUCTURE:
            verdict = self.judge.evaluate(candidate, Effort.PROMOTION)
        self.state.ledger.count_device_seconds(verdict.seconds_running)
        return verdict
