"""Finale: the best programs get the full numeric search and a second look, the winner is put to the strict test."""

from __future__ import annotations

from kernelevolve.judge.verdict import Effort, Verdict, VerdictKind
from kernelevolve.search.evaluation import Evaluator, Outcome, Request, judge_twice
from kernelevolve.search.events import Phase, PhaseChanged, PromotionJudged
from kernelevolve.search.fitness import fitness
from kernelevolve.search.node import Node
from kernelevolve.search.settings import SearchSettings
from kernelevolve.search.stage import Stage

TUNE = "tune"
"""Name under which a finalist at better numbers is a node of its own: no operator makes it, the numeric search does."""


class Finale:
    """What remains to be done once a search has ended. After a kill, a second finale does only what is missing."""

    def __init__(self, stage: Stage, evaluator: Evaluator, settings: SearchSettings) -> None:
        self._stage, self._state, self._evaluator, self._settings = stage, stage.state, evaluator, settings

    def run(self) -> None:
        """Tune, look again, promote. Each part ends at its share of the wall time, but one promotion is always made."""
        self._stage.tell(PhaseChanged(Phase.FINALISTS))
        self._stage.allow_trials_until(self._settings.budget.finalists_until)
        for node in self._finalists():
            self._tune(node)
        ranked = self._ranked_again(self._finalists())
        self._stage.tell(PhaseChanged(Phase.PROMOTION))
        self._promote(ranked)

    def _finalists(self) -> list[Node]:
        """The fittest node of each of the best few programs."""
        programs: dict[str, Node] = {}
        for node in self._state.correct():
            programs.setdefault(node.structure, node)
        return list(programs.values())[: self._settings.finalists]

    def _tune(self, node: Node) -> None:
        """Continue the numeric search of a program; better numbers make a node of their own."""
        state, settings, until = self._state, self._settings, self._settings.budget.finalists_until
        earlier = tuple(t for number in self._family(node) for t in state.store.trials(state.run, number))
        if len(earlier) >= settings.full_trials or state.ledger.seconds >= until:
            return
        if not state.ledger.evaluations.commit():
            return
        judged = state.judged(node.id)
        request = Request(judged.candidate, trials=settings.full_trials, earlier=earlier, known=judged.verdict)
        outcome = self._stage.call(
            lambda: self._evaluator.evaluate(request),
            on_trial=lambda trial: state.store.append_trial(state.run, node.id, trial),
        )
        state.ledger.count_device_seconds(outcome.device_seconds)
        if outcome.candidate.id == node.candidate_id:
            state.ledger.evaluations.release()
            return
        state.ledger.evaluations.settle()
        # Its trials are already stored with the finalist.
        self._stage.insert(Outcome(outcome.candidate, outcome.verdict), (node.id,), TUNE)

    def _family(self, node: Node) -> list[int]:
        """The nodes whose numeric search a finalist continues: itself and those that it was tuned from."""
        family = [node.id]
        while node.operator == TUNE:
            node = self._state.graph[node.parents[0]]
            family.insert(0, node.id)
        return family

    def _ranked_again(self, finalists: list[Node]) -> list[Node]:
        """The finalists by a second, independent screen.

        The fittest of many is partly the luckiest; what it was chosen by is no estimate of how good it is.
        """
        if len(finalists) < 2:
            return finalists
        state, until = self._state, self._settings.budget.finalists_until
        seen: dict[int, float] = {}
        for node in finalists:
            screens = [v for v in state.store.verdicts(state.run, node.id) if v.effort is Effort.SCREEN]
            if len(screens) < 2 and state.ledger.seconds < until:
                verdict = self._judge(node, Effort.SCREEN)
                if verdict.kind is not VerdictKind.INFRASTRUCTURE:
                    screens.append(verdict)
            if len(screens) < 2:
                return finalists
            seen[node.id] = fitness(screens[-1])
        return sorted(finalists, key=lambda node: (-seen[node.id], node.id))

    def _promote(self, ranked: list[Node]) -> None:
        """Put finalists to the strict test, in order, until one is correct and faster than every baseline."""
        state = self._state
        known = state.store.promotions(state.run)
        made = False
        for node in ranked:
            verdict = known.get(node.id)
            if verdict is None:
                if made and state.ledger.seconds >= self._settings.budget.seconds:
                    return
                verdict = self._judge(node, Effort.PROMOTION)
                made = True
                self._stage.tell(PromotionJudged(node, verdict, verdict.wins))
            if verdict.wins:
                return

    def _judge(self, node: Node, effort: Effort) -> Verdict:
        """A further verdict on a node; stored, unless it says nothing of the candidate."""
        state = self._state
        candidate = state.judged(node.id).candidate
        verdict = self._stage.call(lambda: judge_twice(self._evaluator.judge, candidate, effort))
        state.ledger.count_device_seconds(verdict.seconds_running)
        if verdict.kind is not VerdictKind.INFRASTRUCTURE:
            state.store.append_verdict(state.run, node.id, verdict, state.closing_checkpoint())
        return verdict
