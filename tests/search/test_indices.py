"""The structures under the policies, against the plain way of computing the same."""

from __future__ import annotations

import math
import random
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kernelevolve.judge.verdict import VerdictKind
from kernelevolve.search.elites import Elites
from kernelevolve.search.node import Node
from kernelevolve.search.repairs import Repairs
from kernelevolve.search.sum_tree import SumTree

weights = st.floats(0, 1e300, allow_nan=False) | st.just(0.0)


@given(st.lists(weights, max_size=40), st.lists(st.tuples(st.integers(0, 39), weights), max_size=40))
def test_a_sum_tree_depends_on_its_weights_only(first: list[float], changes: list[tuple[int, float]]) -> None:
    changed, tree = list(first), SumTree()
    for weight in first:
        tree.append(weight)
    for position, weight in changes:
        if position < len(changed):
            changed[position] = weight
            tree.set(position, weight)
    again = SumTree()
    for weight in changed:
        again.append(weight)
    assert [tree[i] for i in range(len(tree))] == changed
    assert tree.total == again.total
    assert math.isclose(tree.total, sum(changed), rel_tol=1e-9)
    drawn = [tree.draw(random.Random(seed)) for seed in range(20)]
    assert drawn == [again.draw(random.Random(seed)) for seed in range(20)]
    if tree.total > 0:
        assert all(at is not None and changed[at] > 0 for at in drawn), "something without weight was drawn"
    else:
        assert drawn == [None] * 20


class Fixed(random.Random):
    """Draws a given number."""

    def __init__(self, value: float) -> None:
        super().__init__()
        self.value = value

    def random(self) -> float:
        return self.value


@pytest.mark.parametrize("value", [0.0, 0.5, 1 - 2**-53])
@pytest.mark.parametrize("values", [[0.0, 1e-300, 0.0], [0.1] * 10 + [0.0] * 7, [0.0, 0.3, 1e300, 0.0, 0.1, 0.0]])
def test_the_ends_of_the_range_draw_something_with_weight(value: float, values: list[float]) -> None:
    tree = SumTree()
    for weight in values:
        tree.append(weight)
    at = tree.draw(Fixed(value))
    assert at is not None
    assert values[at] > 0


def test_draws_are_in_proportion() -> None:
    tree = SumTree()
    for weight in (1.0, 0.0, 2.0, 5.0, 0.0, 2.0):
        tree.append(weight)
    rng = random.Random(0)
    counts = Counter(tree.draw(rng) for _ in range(10_000))
    assert set(counts) == {0, 2, 3, 5}
    for position, weight in ((0, 1.0), (2, 2.0), (3, 5.0), (5, 2.0)):
        assert abs(counts[position] / 10_000 - weight / 10) < 0.02


def correct(number: int, fitness: float) -> Node:
    return Node(number, "", (), "", VerdictKind.CORRECT, fitness, "", 0)


offers = st.lists(st.tuples(st.sampled_from("abcd"), st.integers(-3, 3)), max_size=30)


@given(offers, st.sets(st.integers(0, 29)), st.integers(0, 2**16))
def test_elites_are_the_best_of_each_key_whenever_nodes_were_retired(
    given_offers: list[tuple[str, int]], retired: set[int], seed: int
) -> None:
    early, late = Elites(), Elites()
    for number, (key, fitness) in enumerate(given_offers):
        early.offer(key, correct(number, fitness))
        late.offer(key, correct(number, fitness))
        early.top(2)
        if number in retired:
            early.retire(number)
    for number in retired:
        late.retire(number)
    best: dict[str, tuple[int, int]] = {}
    for number, (key, fitness) in enumerate(given_offers):
        if key not in best or fitness > best[key][0]:
            best[key] = (fitness, number)
    expected = [n for _, n in sorted((-f, n) for f, n in best.values() if n not in retired)]
    for elites in (early, late):
        assert [node.id for node in elites.top(10)] == expected
        assert [node.id for node in elites.top(2)] == expected[:2]
        assert len(elites) == len(expected)
    drawn = early.draw(random.Random(seed))
    assert drawn == late.draw(random.Random(seed))
    assert (drawn.id in expected) if drawn is not None else not expected


def failed(number: int, *parents: int, kind: VerdictKind = VerdictKind.WRONG) -> Node:
    return Node(number, "", parents, "", kind, -math.inf, "", 0)


def test_repairs_are_leaves_within_the_depth() -> None:
    repairs, rng = Repairs(depth=2), random.Random(0)
    repairs.learn(failed(0))
    assert repairs.draw(rng) == 0
    repairs.close(0)
    assert repairs.draw(rng) is None
    repairs.reopen(0)
    assert repairs.draw(rng) == 0
    repairs.learn(failed(1, 0))
    assert repairs.draw(rng) == 1, "the parent was tried"
    repairs.learn(failed(2, 1))
    assert len(repairs) == 0, "three failures in a row are too many"
    repairs.learn(correct(3, 0.0))
    repairs.learn(failed(4, 3))
    assert repairs.draw(rng) == 4, "something correct begins a new count"
    for number, kind in enumerate((VerdictKind.CHEAT, VerdictKind.INFRASTRUCTURE), start=5):
        repairs.learn(failed(number, 4, kind=kind))
        assert len(repairs) == 0
