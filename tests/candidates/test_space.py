"""The numeric space: every tuner relies on these properties, for any space that a candidate may declare."""

from __future__ import annotations

import pickle
import random
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from kernelevolve.candidates import Bool, Choice, Config, Int, PowerOfTwo, TunableSpace
from kernelevolve.candidates.constraint import Constraint

NAMES = ("A", "B", "C", "D")


@st.composite
def powers(draw: st.DrawFn) -> PowerOfTwo:
    low, high = sorted((draw(st.integers(0, 8)), draw(st.integers(0, 8))))
    return PowerOfTwo(1 << low, 1 << high, 1 << draw(st.integers(low, high)))


@st.composite
def integers(draw: st.DrawFn) -> Int:
    low, step, count = draw(st.integers(-5, 20)), draw(st.integers(1, 4)), draw(st.integers(1, 6))
    return Int(low, low + step * (count - 1), low + step * draw(st.integers(0, count - 1)), step=step)


@st.composite
def choices(draw: st.DrawFn) -> Choice:
    options: list[list[Any]] = [["x", "y", "z"], [1, 2, 4, 8], [0.5, 1.5], ["on", 3, True], ["only"]]
    values = draw(st.sampled_from(options))
    return Choice(*values, default=draw(st.sampled_from(values)))


@st.composite
def spaces(draw: st.DrawFn) -> TunableSpace:
    kinds = st.one_of(powers(), integers(), choices(), st.builds(Bool, st.booleans()))
    tunables = {name: draw(kinds) for name in NAMES[: draw(st.integers(1, 4))]}
    numeric = [name for name, t in tunables.items() if t.ordered and not isinstance(t, Bool)]
    constraints = []
    for _ in range(draw(st.integers(0, 2))):
        if numeric:
            first, second = draw(st.sampled_from(numeric)), draw(st.sampled_from(numeric))
            start = float(tunables[first].start()) + float(tunables[second].start())
            constraints.append(f"{first} + {second} <= {start + draw(st.integers(0, 50))}")
    return TunableSpace(tunables, constraints)


def by_text(config: Config) -> str:
    return repr(sorted(config.items()))


@given(spaces())
def test_points_are_all_allowed_configurations_and_no_other(space: TunableSpace) -> None:
    points = list(space.points())
    assert all(space.allows(point) for point in points)
    assert len({by_text(point) for point in points}) == len(points) <= space.size()
    assert space.default in points


@given(spaces())
def test_neighbours_are_allowed_one_step_away_and_symmetric(space: TunableSpace) -> None:
    for point in list(space.points())[:40]:
        for near in space.neighbors(point):
            assert space.allows(near)
            assert sum(near[name] != point[name] for name in point) == 1
            assert any(by_text(back) == by_text(point) for back in space.neighbors(near))


@given(
    spaces(), st.dictionaries(st.sampled_from((*NAMES, "E")), st.one_of(st.integers(-9, 999), st.text(), st.booleans()))
)
@settings(suppress_health_check=[HealthCheck.too_slow])  # The first text of a process takes seconds on a busy machine.
def test_a_foreign_configuration_is_projected_into_the_space(space: TunableSpace, foreign: dict[str, Any]) -> None:
    assert space.allows(space.project(foreign))


@given(spaces(), st.integers(0, 2**32))
def test_projection_keeps_what_is_allowed_and_random_is_allowed(space: TunableSpace, seed: int) -> None:
    config = space.random(random.Random(seed))
    assert space.allows(config)
    assert by_text(space.project(config)) == by_text(config)


@given(spaces())
def test_encodings_have_one_length_lie_in_the_unit_box_and_differ(space: TunableSpace) -> None:
    points = list(space.points())[:60]
    codes = [space.encode(point) for point in points]
    assert {len(code) for code in codes} == {len(codes[0])}
    assert all(0 <= x <= 1 for code in codes for x in code)
    assert len({tuple(code) for code in codes}) == len(points)


@given(spaces())
def test_a_space_survives_json_and_pickle(space: TunableSpace) -> None:
    space.allows(space.default)
    assert TunableSpace.model_validate_json(space.model_dump_json()) == space
    assert list(pickle.loads(pickle.dumps(space)).points()) == list(space.points())


def test_a_tight_space_is_still_sampled() -> None:
    space = TunableSpace({n: Int(0, 30) for n in NAMES}, ["A == B", "B == C + D", "A + B + C + D <= 2 or A == 0"])
    rng = random.Random(0)
    assert all(space.allows(space.random(rng)) for _ in range(20))


def test_projection_goes_as_near_as_the_constraint_lets_it() -> None:
    space = TunableSpace({"M": PowerOfTwo(16, 256, 16), "N": PowerOfTwo(16, 256, 16)}, ["M * N <= 4096"])
    assert space.project({"M": 128, "N": 128}) == {"M": 128, "N": 16}
    assert space.project({"M": 48, "K": 3}) == {"M": 64, "N": 16}  # nearest by ratio, unknown names dropped


def test_seeds_are_completed_projected_and_not_repeated() -> None:
    space = TunableSpace({"B": PowerOfTwo(1, 64, 8), "V": Bool()}, ["B <= 32"], [{"B": 64}, {"B": 16}, {"B": 8}])
    assert space.starts() == [{"B": 8, "V": False}, {"B": 16, "V": False}]


def test_equal_values_of_another_type_are_other_configurations() -> None:
    space = TunableSpace({"N": Choice(1, 2), "F": Bool()})
    assert space.allows({"N": 1, "F": True})
    assert not space.allows({"N": True, "F": True})
    assert not space.allows({"N": 1.0, "F": True})
    assert type(space.project({"N": True, "F": 1})["F"]) is bool


def test_counting_stops_early() -> None:
    space = TunableSpace({n: Int(0, 4000) for n in NAMES})
    assert not space.at_most(200)
    assert TunableSpace({"A": Int(0, 400)}, ["A < 150"]).at_most(200)


@pytest.mark.parametrize(
    ("make", "complaint"),
    [
        (lambda: PowerOfTwo(3, 8), "not a power of two"),
        (lambda: PowerOfTwo(8, 64, 128), "not between"),
        (lambda: Int(0, 10, 11), "not in range"),
        (lambda: Int(0, 10**9), "larger step"),
        (lambda: Choice(), "at least 1"),
        (lambda: Choice(1, 1), "distinct"),
        (lambda: Choice(1, 2, default=3), "not an option"),
        (lambda: PowerOfTwo(1, 8, defualt=4), "defualt"),
        (lambda: TunableSpace({"A": Int(0, 4)}, ["B > 1"]), "not a tunable"),
        (lambda: TunableSpace({"A": Int(0, 4)}, ["A > 1"]), "breaks the constraint"),
        (lambda: TunableSpace({"A": Int(0, 4)}, ["A >"]), "not an expression"),
        (lambda: TunableSpace({"A": Int(0, 4)}, ["__import__('os').getpid() > 0"]), "arithmetic"),
        (lambda: TunableSpace({"A": Int(0, 4)}, ["A.real >= 0"]), "arithmetic"),
        (lambda: TunableSpace({"A": Int(0, 4)}, ["[x for x in (1,)]"]), "arithmetic"),
        (lambda: TunableSpace({"A": Int(0, 4)}, ["-" * 500 + "A <= 0"]), "nested too deeply"),
        (lambda: TunableSpace({"A": Int(0, 4)}, seeds=[{"B": 1}]), "not tunables"),
    ],
)
def test_a_bad_declaration_says_what_is_wrong(make: Any, complaint: str) -> None:
    with pytest.raises(ValueError, match=complaint):
        make()


@given(
    st.sampled_from(
        ["9 ** 9 ** 9 > A", "'x' * 10 ** 9 != A", "1 << 10 ** 12 > A", "1 % A > 0", "'a' < A", "'%9999999d' % A != A"]
    )
)
def test_a_hostile_constraint_costs_nothing_and_does_not_hold(text: str) -> None:
    # None of them may be satisfied by the default, so declaring one is refused, at once and without a huge value.
    with pytest.raises(ValueError, match="breaks the constraint"):
        TunableSpace({"A": Int(0, 3)}, [text])


@given(st.integers(1, 64), st.integers(1, 64), st.integers(0, 5))
def test_constraints_mean_what_python_means(a: int, b: int, c: int) -> None:
    text = (
        "(A * B // 3 + C ** 2 <= 400 and A % 4 != 1) or not -A < -B < C << 3 or A in (B, C) or (C if A > B else B) == 7"
    )
    expected = bool(eval(text, {"A": a, "B": b, "C": c}))
    assert Constraint(text, ("A", "B", "C")).holds({"A": a, "B": b, "C": c}) is expected
