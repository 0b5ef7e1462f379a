"""Finale: finalists are tuned to the end, looked at again, and promoted until one wins."""

from __future__ import annotations

from pathlib import Path

import pytest
from doubles import Recorder, ScriptedJudge, digits_of, engine, kind_of, search, settings, speedup_of

from kernelevolve.candidates import Candidate
from kernelevolve.judge.verdict import Effort, VerdictKind
from kernelevolve.run import Run
from kernelevolve.search.events import PromotionJudged, RunFinished
from kernelevolve.search.finale import TUNE
from kernelevolve.store import Store


def promotions(listener: Recorder) -> list[tuple[int, bool]]:
    return [(e.node.id, e.accepted) for e in listener.of(PromotionJudged)]


def test_finalists_continue_their_numeric_search_and_better_numbers_are_a_node(tmp_path: Path) -> None:
    points = 28  # of the scripted space: a search that may time them all finds the best
    store, run, _ = search(tmp_path, settings(20, quick_trials=1, full_trials=points))
    nodes = [s.node for s in store.nodes(run.id)]
    tuned = [n for n in nodes if n.operator == TUNE]
    assert tuned
    for node in tuned:
        parent = nodes[node.parents[0]]
        assert node.structure == parent.structure
        assert node.fitness > parent.fitness
        assert store.candidate(run.id, node.id).config == {"BLOCK": 256, "WARPS": 2}
        trials = store.trials(run.id, parent.id)
        assert len(trials) == points
        assert len({tuple(config.items()) for config, _ in trials}) == points  # none was timed again
        assert store.trials(run.id, node.id) == []
    assert max(nodes, key=lambda n: n.fitness).id in store.promotions(run.id)


def test_finalists_are_ranked_by_a_second_look(tmp_path: Path) -> None:
    lucky: list[str] = []

    def speedup(candidate: Candidate, effort: Effort) -> float:
        if effort is Effort.SCREEN and not lucky and digits_of(candidate)[0] == 2:
            lucky.append(candidate.id)
            return 3 * speedup_of(candidate)
        return speedup_of(candidate)

    listener = Recorder()
    chosen = settings(40, quick_trials=0, full_trials=0)
    store, run, _ = search(tmp_path, chosen, ScriptedJudge(speedup=speedup), [listener])
    nodes = [s.node for s in store.nodes(run.id)]
    finalists = [n.id for n in nodes if len(store.verdicts(run.id, n.id)) > 1]
    assert len(finalists) == 3
    assert max(nodes, key=lambda n: n.fitness).candidate_id == lucky[0]
    second = {n: store.verdicts(run.id, n)[1].speedups["eager"].value for n in finalists}
    first = listener.of(PromotionJudged)[0].node
    assert first.id == max(finalists, key=lambda n: second[n])
    assert first.candidate_id != lucky[0]


def test_if_a_promotion_fails_the_next_finalist_is_promoted(tmp_path: Path) -> None:
    failed: list[str] = []

    def kind(candidate: Candidate, effort: Effort) -> VerdictKind:
        if effort is Effort.PROMOTION and not failed:
            failed.append(candidate.id)
            return VerdictKind.WRONG
        return kind_of(candidate)

    listener = Recorder()
    store, run, _ = search(tmp_path, settings(60), ScriptedJudge(kind=kind), [listener])
    (first, won_first), (second, won_second) = promotions(listener)
    assert (won_first, won_second) == (False, True)
    best = Run(store, run.id).best
    assert best is not None
    assert best.node.id == second == listener.of(RunFinished)[0].best
    assert best.promoted
    assert best.verdict.wins
    assert store.promotions(run.id)[first].kind is VerdictKind.WRONG


def test_a_search_without_a_win_shows_its_best_as_a_loss(tmp_path: Path) -> None:
    listener = Recorder()
    judge = ScriptedJudge(speedup=lambda candidate, effort: 0.4 * speedup_of(candidate))
    store, run, _ = search(tmp_path, settings(25), judge, [listener])
    assert [won for _, won in promotions(listener)] == [False, False, False]
    summary = Run(store, run.id).summary()
    assert summary.best is not None
    assert (summary.best.promoted, summary.best.faster) == (True, False)
    shown = max(v.speedups["eager"].value for v in store.promotions(run.id).values())
    assert summary.best.speedup["eager"].value == shown < 1


def test_a_search_without_anything_correct_ends_without_a_best(tmp_path: Path) -> None:
    judge = ScriptedJudge(kind=lambda candidate, effort: VerdictKind.WRONG)
    store, run, _ = search(tmp_path, settings(12), judge)
    summary = Run(store, run.id).summary()
    assert summary.best is None
    assert summary.verdicts == {"wrong": summary.evaluations}
    assert summary.control.best_draft is None
    assert judge.judged(Effort.PROMOTION) == []


def test_a_finale_that_was_done_is_not_done_again(tmp_path: Path) -> None:
    chosen = settings(30)
    store, run, _ = search(tmp_path, chosen)
    again = ScriptedJudge()
    engine(Store(tmp_path), store.run(run.id), chosen, again).run()
    assert again.calls == []


@pytest.mark.parametrize("margin", [0.05, 0.03])
def test_a_win_must_clear_the_noise_that_the_promotion_measured(tmp_path: Path, margin: float) -> None:
    """The scripted interval is 2 % wide on each side: a true speed-up of 1 + margin wins only above that."""
    judge = ScriptedJudge(speedup=lambda candidate, effort: 1 + margin)
    store, run, _ = search(tmp_path, settings(4), judge)
    best = Run(store, run.id).best
    assert best is not None
    assert best.verdict.wins is (margin == 0.05)
