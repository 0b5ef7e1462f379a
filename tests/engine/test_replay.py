"""Replay: the decisions of a recorded run, made again, lead to the same graph."""

from __future__ import annotations

from pathlib import Path

import pytest
from doubles import Change, Combine, Draft, ScriptedJudge, ScriptedTarget, engine, new_run, program, search, settings

from kernelevolve.candidates import Candidate
from kernelevolve.errors import InvalidRequest
from kernelevolve.operators import Operator, ProposalContext
from kernelevolve.search.policies import POLICIES
from kernelevolve.search.replay import Replayed, replay
from kernelevolve.search.settings import SearchSettings
from kernelevolve.search.turns import Turns
from kernelevolve.store import Store

OPERATORS: tuple[Operator, ...] = (Draft(), Change(), Combine())


def again(store: Store, run: str, chosen: SearchSettings, operators: tuple[Operator, ...] = OPERATORS) -> Replayed:
    return replay(store, store.run(run), chosen, POLICIES.get(chosen.policy), operators, ScriptedTarget())


@pytest.mark.parametrize("policy", POLICIES.names())
def test_a_run_is_replayed_to_the_same_graph(tmp_path: Path, policy: str) -> None:
    chosen = settings(40, policy=policy)
    store, run, _ = search(tmp_path, chosen)
    assert again(store, run.id, chosen) == Replayed(len(list(store.nodes(run.id))))


def test_a_run_that_was_also_told_is_replayed(tmp_path: Path) -> None:
    store, chosen = Store(tmp_path), settings(60)
    run, judge = new_run(store, chosen), ScriptedJudge()
    turns = Turns(store, run, chosen, POLICIES.get("greedy"), ScriptedTarget())
    for number in range(8):
        turns.tell(program((number % 4, 2, 1, number // 4, 0)), lambda: judge, [3] if number == 6 else None)
    engine(store, run, chosen, judge).run()
    nodes = [s.node for s in store.nodes(run.id)]
    assert {"agent", "change"} <= {node.operator for node in nodes}
    assert again(store, run.id, chosen) == Replayed(len(nodes))


@pytest.mark.parametrize("policy", POLICIES.names())
def test_a_run_that_was_told_alone_and_finished_is_replayed(tmp_path: Path, policy: str) -> None:
    """Numbers that were told, those that the finale found, and promotions: none of them is decided by the policy."""
    store, chosen = Store(tmp_path), settings(30, policy=policy, workers=3)
    run, judge = new_run(store, chosen), ScriptedJudge()
    turns = Turns(store, run, chosen, POLICIES.get(policy), ScriptedTarget())
    for digits in ((1, 0, 1, 0, 0), (3, 3, 0, 0, 0), (2, 0, 1, 0, 0), (0, 0, 0, 3, 3), (2, 2, 1, 0, 0)):
        turns.tell(program(digits), lambda: judge)
    told = program((2, 2, 1, 0, 0))
    turns.tell(told.model_copy(update={"config": {"BLOCK": 512, "WARPS": 1}}), lambda: judge)
    engine(store, run, chosen, judge).finish()
    nodes = [s.node for s in store.nodes(run.id)]
    assert {node.operator for node in nodes} == {"agent", "tune"} and store.promotions(run.id)
    assert again(store, run.id, chosen, ()) == Replayed(len(nodes))


def test_the_first_difference_is_told(tmp_path: Path) -> None:
    class Other:
        name, arities = "change", (1,)

        def propose(self, context: ProposalContext) -> Candidate | None:
            return program((3, 2, 3, 2, 1))

    chosen = settings(30)
    store, run, _ = search(tmp_path, chosen)
    first = next(s.node.id for s in store.nodes(run.id) if s.node.operator == "change")
    result = again(store, run.id, chosen, (Draft(), Other(), Combine()))
    assert result.nodes == first
    assert result.difference == f"node {first}: change proposed another program than the recorded one"
    assert again(store, run.id, chosen.model_copy(update={"seed": 1})).difference


def test_a_run_of_several_conversations_is_refused(tmp_path: Path) -> None:
    chosen = settings(10, conversations=2)
    store, run, _ = search(tmp_path, chosen)
    with pytest.raises(InvalidRequest, match=r"2 conversations at once, and the order .* is not recorded"):
        again(store, run.id, chosen)


def test_a_told_run_is_replayed_whatever_its_conversations(tmp_path: Path) -> None:
    """Candidates are told one after the other; only operators are ever asked side by side."""
    store, chosen = Store(tmp_path), settings(20, workers=3, conversations=2)
    run, judge = new_run(store, chosen), ScriptedJudge()
    turns = Turns(store, run, chosen, POLICIES.get("greedy"), ScriptedTarget())
    for number in range(5):
        turns.tell(program((number % 4, 2, 1, number // 4, 0)), lambda: judge)
    assert again(store, run.id, chosen) == Replayed(5)


def test_a_run_of_several_workers_is_refused(tmp_path: Path) -> None:
    chosen = settings(10, workers=3)
    store, run, _ = search(tmp_path, chosen)
    with pytest.raises(InvalidRequest, match="3 workers"):
        again(store, run.id, chosen)
