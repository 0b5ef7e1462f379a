"""Every policy, replayed on landscapes of programs with known times."""

from __future__ import annotations

import json
import random
from collections import Counter
from pathlib import Path
from statistics import mean

import pytest
from landscape import Landscape, RecordedLandscape, Replay

from kernelevolve.errors import InvalidRequest
from kernelevolve.judge.verdict import VerdictKind
from kernelevolve.search.graph import SearchGraph
from kernelevolve.search.node import Node
from kernelevolve.search.policies import POLICIES
from kernelevolve.search.policy import Expansion, Policy
from kernelevolve.tuning.replay import RecordedSpace

ALL = POLICIES.names()
DATA = Path(__file__).parent.parent / "data"
TREE = [name for name in ALL if name != "best-of-n"]


def make(name: str) -> Policy:
    return POLICIES.get(name)()


def best(replay: Replay) -> float:
    assert replay.graph.best is not None
    return replay.graph.best.fitness


def test_the_registry_knows_six_policies_by_their_own_names() -> None:
    assert ALL == ["beam", "best-of-n", "greedy", "map-elites", "mcts", "weighted"]
    assert [make(name).name for name in ALL] == ALL
    with pytest.raises(InvalidRequest, match="beam"):
        POLICIES.get("sum-tree")


@pytest.mark.parametrize("workers", [1, 4])
@pytest.mark.parametrize("name", ALL)
def test_a_seed_determines_a_search(name: str, workers: int) -> None:
    one, two, other = (Replay(Landscape(1), make(name), seed, workers).run(80) for seed in (5, 5, 6))
    assert one.log == two.log
    assert one.log != other.log


@pytest.mark.parametrize("workers", [1, 4])
@pytest.mark.parametrize("name", ALL)
def test_expansions_are_sound_and_the_budget_is_kept(name: str, workers: int) -> None:
    replay = Replay(Landscape(2), make(name), 3, workers).run(150)
    assert len(replay.graph) == len(set(replay.programs)) == 150
    spent: set[tuple[int, ...]] = set()
    for expansion, program in replay.log:
        assert expansion.parents not in spent, "a spent expansion was selected again"
        assert len(set(expansion.parents)) == len(expansion.parents) <= 2
        failed = [number for number in expansion.parents if not replay.graph[number].correct]
        assert expansion.repair == bool(failed)
        assert len(failed) <= (len(expansion.parents) == 1)
        if program is None:
            spent.add(expansion.parents)


@pytest.mark.parametrize("name", ALL)
@pytest.mark.parametrize("cut", [0, 1, 7, 33, 90])
def test_a_search_that_was_killed_goes_on_as_if_it_had_not_been(name: str, cut: int) -> None:
    # A small space, so that expansions come to nothing and parents are spent before and after the cut.
    landscape = Landscape(4, sizes=(3, 3, 3, 2, 3), failing=0.05)
    whole = Replay(landscape, make(name), 9).run(cut)
    state = json.loads(json.dumps(whole.policy.state_dict()))
    resumed = whole.resumed(make(name), state)
    before = len(whole.log)
    assert whole.run(130).log[before:] == resumed.run(130).log
    assert list(whole.graph.nodes()) == list(resumed.graph.nodes())


@pytest.mark.parametrize("name", TREE)
def test_what_was_in_flight_at_the_end_of_a_process_is_selected_anew(name: str) -> None:
    replay = Replay(Landscape(5), make(name), 2, workers=4).run(40)
    replay.policy.select(replay.graph, 3, replay.rng)
    resumed = replay.resumed(make(name), json.loads(json.dumps(replay.policy.state_dict()))).run(90)
    assert len(resumed.graph) == 90
    assert best(resumed) >= best(replay)


@pytest.mark.parametrize("name", ["greedy", "beam", "weighted", "mcts"])
def test_a_search_ends_when_and_only_when_nothing_is_left(name: str) -> None:
    landscape = Landscape(6, sizes=(2, 3, 2, 3), failing=0.03)
    replay = Replay(landscape, make(name), 1).run(1000)
    assert replay.dry
    optimum = max(landscape.fitness(program) for program in landscape.programs())
    assert best(replay) == optimum
    # Whatever is one decision from a correct program that was judged has been judged too.
    for number, program in enumerate(replay.programs):
        if replay.graph[number].correct:
            assert landscape.mutate(program, replay.rng, replay.tried) is None


def test_the_control_and_the_archive_end_too() -> None:
    for name in ("best-of-n", "map-elites"):
        assert Replay(Landscape(6, sizes=(2, 3, 2)), make(name), 1).run(1000).dry


@pytest.mark.parametrize("name", TREE)
def test_a_policy_beats_independent_drafts_on_average(name: str) -> None:
    gains = []
    for landscape_seed in range(12):
        landscape = Landscape(landscape_seed)
        for seed in range(2):
            control = best(Replay(landscape, make("best-of-n"), seed).run(60))
            gains.append(best(Replay(landscape, make(name), seed).run(60)) - control)
    assert mean(gains) > 0.05, f"{name} gains {mean(gains):.3f} in log time over best of n"


@pytest.mark.parametrize("name", TREE)
def test_a_policy_beats_independent_drafts_on_recorded_times(name: str) -> None:
    gains = []
    for path in sorted(DATA.glob("space_*.json")):
        landscape = RecordedLandscape(RecordedSpace.load(path))
        for seed in range(10):
            control = best(Replay(landscape, make("best-of-n"), seed).run(60))
            gains.append(best(Replay(landscape, make(name), seed).run(60)) - control)
    assert len(gains) == 20
    assert mean(gains) > 0.01, f"{name} gains {mean(gains):.3f} in log time over best of n"


@pytest.mark.parametrize("name", TREE)
def test_a_space_where_everything_fails_is_mended_and_drafted_until_it_ends(name: str) -> None:
    replay = Replay(Landscape(7, failing=1.0), make(name), 0).run(60)
    assert replay.graph.best is None
    assert any(expansion.repair for expansion, _ in replay.log)
    assert any(not expansion.parents for expansion, _ in replay.log)
    failures = [0] * len(replay.graph)
    for node in replay.graph.nodes():
        failures[node.id] = 1 + (failures[node.parents[0]] if node.parents else 0)
    assert max(failures) <= 1 + 3, "a chain of failures is longer than the debug depth allows"


def tree_of(*fitness: float) -> tuple[SearchGraph, list[Node]]:
    """Drafts of different structure with these values of fitness."""
    nodes = [
        Node(i, str(i), (), "draft", VerdictKind.CORRECT, value, f"s{i}", 0, f"n{i}") for i, value in enumerate(fitness)
    ]
    graph = SearchGraph()
    for node in nodes:
        graph.insert(node)
    return graph, nodes


def taught(name: str, graph: SearchGraph) -> Policy:
    policy = make(name)
    for node in graph.nodes():
        policy.update(graph, node)
    return policy


def test_greedy_expands_the_best_and_a_spent_best_gives_way_to_the_next() -> None:
    graph, _ = tree_of(0.1, 0.9, 0.5)
    policy = POLICIES.get("greedy")(combine_probability=0.0)
    for node in graph.nodes():
        policy.update(graph, node)
    rng = random.Random(0)
    assert list(policy.select(graph, 2, rng)) == [Expansion((1,)), Expansion((1,))]
    policy.withdraw(Expansion((1,)), spent=True)
    assert list(policy.select(graph, 1, rng)) == [Expansion((2,))]


def test_beam_gives_each_of_its_members_its_share_and_a_newcomer_at_once() -> None:
    graph, _ = tree_of(0.1, 0.9, 0.5, 0.7)
    policy = POLICIES.get("beam")(width=2, expansions=2, drafts=0, combine_probability=0.0)
    for node in graph.nodes():
        policy.update(graph, node)
    rng = random.Random(0)
    parents = [e.parents[0] for e in policy.select(graph, 5, rng)]
    assert parents == [1, 3, 1, 3, 1]
    child = Node(4, "4", (1,), "mutate", VerdictKind.CORRECT, 2.0, "s4", 1, "n")
    graph.insert(child)
    policy.update(graph, child)
    assert [e.parents[0] for e in policy.select(graph, 3, rng)] == [4, 4, 1]


def test_a_beam_holds_no_two_configurations_of_one_program() -> None:
    graph = SearchGraph()
    policy = POLICIES.get("beam")(width=3, drafts=0, combine_probability=0.0)
    for i, (structure, value) in enumerate([("a", 0.1), ("a", 0.3), ("a", 0.2), ("b", 0.0)]):
        node = Node(i, str(i), (), "draft", VerdictKind.CORRECT, value, structure, 0)
        graph.insert(node)
        policy.update(graph, node)
    assert {e.parents for e in policy.select(graph, 8, random.Random(0))} == {(1,), (3,)}


def test_weighted_draws_by_speed_up_and_spreads_what_is_in_flight() -> None:
    graph, _ = tree_of(0.0, 0.15, 0.3, -0.6)
    policy = POLICIES.get("weighted")(temperature=0.15, drafts=0, combine_probability=0.0)
    for node in graph.nodes():
        policy.update(graph, node)
    rng = random.Random(0)
    first = [0] * 4
    for _ in range(4000):
        (expansion,) = policy.select(graph, 1, rng)
        first[expansion.parents[0]] += 1
        policy.withdraw(expansion, spent=False)
    total = sum((1, 2.718, 7.389, 0.018))
    for count, weight in zip(first, (1, 2.718, 7.389, 0.018), strict=True):
        assert abs(count / 4000 - weight / total) < 0.03
    burst = [e.parents[0] for e in policy.select(graph, 60, rng)]
    assert burst.count(2) < 60 * 7.389 / total, "the fittest is not less likely while it is being expanded"


def test_mcts_sends_simultaneous_expansions_to_different_places() -> None:
    graph, _ = tree_of(0.2, 0.2, 0.2, 0.2, 0.2, 0.2)
    policy = taught("mcts", graph)
    counts = Counter(e.parents for e in policy.select(graph, 12, random.Random(0)) if e.parents)
    assert len(counts) >= 4
    assert max(counts.values()) <= 2, "without virtual loss all would go to one place"


def test_mcts_widens_slowly() -> None:
    replay = Replay(Landscape(8), make("mcts"), 0).run(300)
    drafts = len(replay.graph.roots)
    assert 3 <= drafts <= 2.0 * 301**0.6 + 1
    assert max(node.depth for node in replay.graph.nodes()) >= 4


def test_islands_keep_their_own_and_the_best_migrate() -> None:
    graph, nodes = tree_of(0.1, 0.9, 0.5)
    policy = POLICIES.get("map-elites")(islands=3, drafts=3, migrate_every=4, combine_probability=0.0)
    for node in nodes:
        policy.update(graph, node)
    rng = random.Random(0)
    counts = {e.parents[0] for e in policy.select(graph, 60, rng)}
    assert counts == {0, 1, 2}, "every island has its own parents before a migration"
    child = Node(3, "3", (1,), "mutate", VerdictKind.CORRECT, 0.2, "s3", 1, "n1")
    graph.insert(child)
    policy.update(graph, child)  # the fourth node: 1 enters the island of 2, 0 that of 1, 2 that of 0
    burst = [e.parents[0] for e in policy.select(graph, 600, rng)]
    assert burst.count(1) > burst.count(2) > burst.count(0)


def test_a_cheat_is_not_mended() -> None:
    graph = SearchGraph()
    policy = make("greedy")
    node = Node(0, "0", (), "draft", VerdictKind.CHEAT, float("-inf"), "s", 0)
    graph.insert(node)
    policy.update(graph, node)
    assert all(not e.repair for e in policy.select(graph, 30, random.Random(0)))
