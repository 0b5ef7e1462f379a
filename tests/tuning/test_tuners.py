"""Every tuner: what it asks for, on any space and on recorded ones."""

from __future__ import annotations

import math
import random
from pathlib import Path
from statistics import fmean

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kernelevolve.candidates import Bool, Choice, Config, Int, PowerOfTwo, TunableSpace
from kernelevolve.tuning import TUNERS
from kernelevolve.tuning.records import key_of
from kernelevolve.tuning.replay import RecordedSpace, replay

ALL = TUNERS.names()
DATA = Path(__file__).parent.parent / "data"
SPACE = TunableSpace(
    {
        "BLOCK": PowerOfTwo(16, 1024, 64),
        "WARPS": Choice(1, 2, 4, 8, default=4),
        "ORDER": Choice("rows", "columns", "tiles"),
        "STAGES": Int(1, 4, 2),
        "VECTOR": Bool(),
    },
    constraints=("BLOCK * STAGES <= 2048", "WARPS <= BLOCK // 16"),
)


def seconds_of(config: Config) -> float:
    """A made-up cost: smooth in most tunables, with an interaction, and failures where memory runs out."""
    block, warps, stages = (math.log2(float(config[name])) for name in ("BLOCK", "WARPS", "STAGES"))
    if block + stages > 10.5:
        return math.inf
    penalty = (block - 7) ** 2 * 0.08 + (warps - block / 3) ** 2 * 0.2 + (stages - 1.3) ** 2 * 0.1
    return 1e-3 * (1 + penalty + (config["ORDER"] != "tiles") * 0.3 + (not config["VECTOR"]) * 0.1)


def run(name: str, timings: int, seed: int, space: TunableSpace = SPACE) -> list[Config]:
    tuner, asked = TUNERS.get(name)(space, [space.default], random.Random(seed)), []
    while len(asked) < timings and (config := tuner.ask()) is not None:
        asked.append(config)
        tuner.tell(config, seconds_of(config) if space is SPACE else 1.0)
    return asked


def recorded() -> list[RecordedSpace]:
    return [RecordedSpace.load(path) for path in sorted(DATA.glob("space_*.json"))]


def test_the_registry_knows_the_tuners() -> None:
    assert ALL == ["coordinate", "exhaustive", "hybrid", "lfbo", "random-search"]


@pytest.mark.parametrize("name", ALL)
def test_what_is_asked_for_is_allowed_new_and_follows_from_the_seed(name: str) -> None:
    asked = run(name, 24, seed=3)
    assert asked[0] == SPACE.default
    assert all(SPACE.allows(config) for config in asked)
    assert len({key_of(config) for config in asked}) == len(asked) == 24
    assert asked == run(name, 24, seed=3)
    assert asked != run(name, 24, seed=4)


@pytest.mark.parametrize("name", ALL)
def test_a_tuner_ends_when_everything_was_timed(name: str) -> None:
    space = TunableSpace({"A": Int(0, 4), "B": Bool()}, ["A != 3"])
    assert len(run(name, 100, 0, space)) == 8
    assert run(name, 5, 0, TunableSpace()) == [{}]


@pytest.mark.parametrize("name", ALL)
def test_earlier_records_are_not_asked_for_again(name: str) -> None:
    told = [SPACE.random(random.Random(seed)) for seed in range(30)]
    tuner = TUNERS.get(name)(SPACE, told[:3], random.Random(0))
    for config in told:
        tuner.tell(config, seconds_of(config))
    known = {key_of(config) for config in told}
    for _ in range(5):
        config = tuner.ask()
        assert config is not None
        assert key_of(config) not in known
        known.add(key_of(config))
        tuner.tell(config, seconds_of(config))


@pytest.mark.parametrize("name", ALL)
@settings(max_examples=6, deadline=None)
@given(failures=st.integers(0, 18), seed=st.integers(0, 99))
def test_failures_do_not_end_a_search(name: str, failures: int, seed: int) -> None:
    tuner = TUNERS.get(name)(SPACE, [SPACE.default], random.Random(seed))
    for count in range(18):
        config = tuner.ask()
        assert config is not None
        tuner.tell(config, math.inf if count < failures else 1.0)


def test_descent_repeats_a_step_that_helped() -> None:
    space = TunableSpace({"A": Int(0, 9), "B": Int(0, 9), "C": Int(0, 9)})
    tuner = TUNERS.get("coordinate")(space, [space.default], random.Random(1))
    path: list[int] = []
    while len(path) < 20 and (config := tuner.ask()) is not None:
        tuner.tell(config, 1.0 - 0.01 * int(config["A"]) + 0.1 * int(config["B"]) + 0.1 * int(config["C"]))
        path.append(int(config["A"]))
        if path[-1] == 9:
            break
    first = path.index(1)
    assert path[first:] == list(range(1, 10)), "after the first step that helped, every step goes on in A"


def test_hybrid_descends_from_seeds_and_without_any_is_the_forest() -> None:
    def asked(name: str, seeds: list[Config], count: int) -> list[Config]:
        tuner, found = TUNERS.get(name)(SPACE, seeds, random.Random(5)), []
        for _ in range(count):
            config = tuner.ask()
            assert config is not None
            found.append(config)
            tuner.tell(config, seconds_of(config))
        return found

    assert asked("hybrid", [], 14) == asked("lfbo", [], 14)
    seeds = [SPACE.default, {**SPACE.default, "BLOCK": 256}]
    seeded = asked("hybrid", seeds, 8)
    assert seeded[:2] == seeds
    for at in range(2, 8):
        assert min(sum(seeded[at][n] != other[n] for n in other) for other in seeded[:at]) == 1


def test_the_recorded_spaces_are_complete_and_real() -> None:
    spaces = recorded()
    assert [space.name for space in spaces] == ["matmul", "transpose"]
    for space in spaces:
        assert 200 <= len(space.seconds) <= 700
        assert max(filter(math.isfinite, space.seconds)) > 3 * space.optimum, "there is nothing to be gained in it"


@pytest.mark.parametrize(("name", "runs"), [("hybrid", 4), ("coordinate", 30)])
def test_from_one_good_start_a_tuner_beats_random_search_on_recorded_spaces(name: str, runs: int) -> None:
    gains = []
    for space in recorded():
        for seed in range(runs):
            start = random.Random(seed).sample(space.best_share(0.2), 1)
            mine, control = (replay(space, t, 30, random.Random(seed), start) for t in (name, "random-search"))
            assert mine == sorted(mine)
            gains.append(fmean(mine[9:]) - fmean(control[9:]))
    assert fmean(gains) > 0


def test_the_forest_beats_random_search_on_recorded_spaces_without_any_start() -> None:
    gains = []
    for space in recorded():
        for seed in range(5):
            mine, control = (replay(space, name, 32, random.Random(seed)) for name in ("lfbo", "random-search"))
            gains.append(fmean(mine[15:]) - fmean(control[15:]))
    assert fmean(gains) > 0


def test_informed_seeds_pay_at_once() -> None:
    informed, blind = [], []
    for space in recorded():
        for seed in range(10):
            starts = random.Random(seed).sample(space.best_share(0.2), 4)
            informed.append(replay(space, "hybrid", 10, random.Random(seed), starts)[-1])
            blind.append(replay(space, "hybrid", 10, random.Random(seed))[-1])
    assert fmean(informed) > fmean(blind)


def test_a_recorded_space_survives_its_file(tmp_path: Path) -> None:
    space = TunableSpace({"A": Int(0, 3)}, ["A != 2"])
    one = RecordedSpace("three", "made up", space, (2.0, math.inf, 1.0))
    one.save(tmp_path / "three.json")
    assert RecordedSpace.load(tmp_path / "three.json") == one
    assert one.best_share(0.5) == [{"A": 3}]
    assert replay(one, "exhaustive", 5, random.Random(0), [{"A": 0}])[0] == 0.5
    assert replay(one, "exhaustive", 5, random.Random(0))[-1] == 1.0


@pytest.mark.parametrize(
    ("seconds", "complaint"), [((1.0,), "1 times for 2"), ((math.inf, math.inf), "nothing in it works")]
)
def test_an_incomplete_recording_is_refused(seconds: tuple[float, ...], complaint: str) -> None:
    with pytest.raises(ValueError, match=complaint):
        RecordedSpace("x", "", TunableSpace({"A": Bool()}), seconds)


@pytest.mark.parametrize("name", ["random-search", "coordinate", "hybrid"])
def test_a_vast_space_with_few_allowed_points_does_not_hang(name: str) -> None:
    space = TunableSpace({n: Int(0, 4000) for n in "ABCD"}, ["A == B", "B == C", "C == D", "D <= 2"])
    assert 1 <= len(run(name, 9, 0, space)) <= 3
