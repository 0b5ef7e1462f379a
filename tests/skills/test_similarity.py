"""Similarity: what it must give on both ends, and what moves it how far."""

from __future__ import annotations

import pytest
from earlier_runs import SOFTMAX, problem, problem_class
from hypothesis import given
from hypothesis import strategies as st

from kernelevolve.problems import Problem
from kernelevolve.skills import ProblemClass
from kernelevolve.skills import similarity as module
from kernelevolve.skills.similarity import similarity
from kernelevolve.targets import TARGETS

CPU = TARGETS.get("cpu")
OPERATORS = st.dictionaries(st.sampled_from(["mm", "relu", "sum", "add"]), st.floats(0.01, 1), max_size=4)
CLASSES = st.builds(
    ProblemClass, digest=st.sampled_from("ab"), target=st.sampled_from(["cpu", "nvidia"]), operators=OPERATORS,
    tensors=st.dictionaries(st.sampled_from(["input 2d", "output 1d"]), st.integers(1, 5)),
    size_band=st.integers(0, 20), dtypes=st.lists(st.sampled_from(["float32", "int64"]), unique=True).map(tuple),
)  # fmt: skip


@given(CLASSES, CLASSES)
def test_it_is_symmetric_and_a_share(one: ProblemClass, other: ProblemClass) -> None:
    assert similarity(one, other) == similarity(other, one)
    assert 0 <= similarity(one, other) <= 1


@given(CLASSES)
def test_a_problem_is_most_like_itself(one: ProblemClass) -> None:
    assert similarity(one, one) == 1


def test_other_operators_are_not_alike_however_their_shapes_agree() -> None:
    assert similarity(problem_class(), problem_class("b", operators={"sum": 1.0})) == 0


def test_other_shapes_cost_a_quarter_at_most_and_more_the_further_they_are() -> None:
    same = similarity(problem_class(), problem_class("b"))
    larger = [similarity(problem_class(), problem_class("b", size_band=6 + by)) for by in (1, 4, 20)]
    assert same == pytest.approx(1)
    assert same > larger[0] > larger[1] > larger[2] >= 0.75
    assert larger[1] == pytest.approx(0.75 + 0.25 / 2)


def test_another_target_halves_it() -> None:
    assert similarity(problem_class(), problem_class("b", "nvidia")) == pytest.approx(0.5)
    assert similarity(problem_class(), problem_class(target="nvidia")) == pytest.approx(0.5)


def test_products_weigh_more_than_what_is_between_them() -> None:
    wanted = module.problem_class(problem("torch.relu(x @ x.T)"), CPU)
    with_product = module.problem_class(problem("torch.sigmoid(x @ x.T)"), CPU)
    with_relu = module.problem_class(problem("torch.relu(x.sum(-1))"), CPU)
    assert wanted.operators["mm"] > 0.8 and "permute" not in wanted.operators
    assert similarity(wanted, with_product) > 0.6 > 0.3 > similarity(wanted, with_relu)


def test_a_captured_problem_is_like_itself_in_other_shapes_and_unlike_another() -> None:
    small, large, product = (
        module.problem_class(p, CPU)
        for p in (problem(SOFTMAX), problem(SOFTMAX, rows=512, columns=1024), problem("x @ x.T"))
    )
    assert small.shapes == ("input 0: float32 32x64", "output 0: float32 32x64")
    assert small.tensors == {"input 2d": 1, "output 2d": 1} and small.size_band == 5 and large.size_band == 9
    assert 0.8 < similarity(small, large) < 1
    assert similarity(small, product) == 0


def test_what_cannot_be_captured_is_like_the_same_problem_only() -> None:
    odd: Problem = problem("x * 2 if float(x.sum()) > 0 else x")
    found = module.problem_class(odd, CPU)
    assert found.operators == {}
    assert similarity(found, found) == 1
    assert similarity(found, problem_class()) == 0
    assert similarity(found, found.model_copy(update={"digest": "b"})) == 0
