"""The numeric search inside a candidate."""

from __future__ import annotations

import math
import random

import pytest

from kernelevolve.candidates import Bool, Choice, Config, Int, PowerOfTwo, TunableSpace
from kernelevolve.tuning.nested import tune
from kernelevolve.tuning.records import key_of
from kernelevolve.tuning.tuner import Timing

SPACE = TunableSpace(
    {"BLOCK": PowerOfTwo(16, 1024, 64), "STAGES": Int(1, 6), "MODE": Choice("a", "b", "c"), "FAST": Bool()},
    seeds=({"BLOCK": 256},),
)


class Device:
    """Times configurations; larger blocks are faster until they no longer fit."""

    def __init__(self) -> None:
        self.timed: list[Config] = []

    def __call__(self, config: Config) -> float:
        self.timed.append(config)
        block, stages = int(config["BLOCK"]), int(config["STAGES"])
        if block * stages > 2048:
            return math.inf
        return 1e-3 * (64 / block + 0.1 * abs(stages - 3) + 0.5 + 0.05 * (config["MODE"] != "b"))


def test_start_inherited_seeds_default_and_own_seeds_come_first() -> None:
    device = Device()
    start: Config = {"BLOCK": 32, "STAGES": 1, "MODE": "a", "FAST": False}
    inherited: Config = {"BLOCK": 512, "STAGES": 9, "OTHER": 7}
    tune(SPACE, start, device, limit=4, rng=random.Random(0), seeds=[inherited])
    assert [c["BLOCK"] for c in device.timed] == [32, 512, 64, 256]
    assert device.timed[1] == {"BLOCK": 512, "STAGES": 6, "MODE": "a", "FAST": False}


def test_nothing_is_timed_twice_and_the_limit_is_kept() -> None:
    device = Device()
    report = tune(SPACE, SPACE.default, device, limit=22, rng=random.Random(0))
    assert len(device.timed) == len({key_of(c) for c in device.timed}) == len(report.trials) == 22
    assert report.seconds == min(seconds for _, seconds in report.trials)
    assert dict(report.trials[0][0]) == SPACE.default
    assert report.ranked()[0] == report.best
    assert report.failures == sum(math.isinf(seconds) for _, seconds in report.trials)
    assert len(report.ranked()) == 22 - report.failures


def test_a_finalist_continues_its_own_search() -> None:
    device = Device()
    quick = tune(SPACE, SPACE.default, device, limit=15, rng=random.Random(0))
    full = tune(SPACE, quick.best, device, limit=45, rng=random.Random(0), earlier=quick.trials)
    assert full.trials[:15] == quick.trials
    assert len(full.trials) == len(device.timed) == len({key_of(c) for c in device.timed}) == 45
    assert full.seconds <= quick.seconds
    assert full.seconds < 1.05 * min(Device()(config) for config in SPACE.points())


def test_a_small_space_is_timed_completely() -> None:
    space = TunableSpace({"BLOCK": PowerOfTwo(16, 1024, 64), "STAGES": Int(1, 60), "MODE": Choice("a"), "FAST": Bool()},
                         ["STAGES <= 2", "FAST == 0 or STAGES == 1"])  # fmt: skip
    device = Device()
    report = tune(space, space.default, device, limit=100, rng=random.Random(0))
    assert {key_of(c) for c in device.timed} == {key_of(c) for c in space.points()}
    assert report.best["BLOCK"] == 1024


def test_it_stops_when_time_is_up() -> None:
    device = Device()
    report = tune(SPACE, SPACE.default, device, limit=50, rng=random.Random(0), expired=lambda: len(device.timed) >= 7)
    assert len(report.trials) == 7


def test_when_nothing_works_the_start_is_kept() -> None:
    report = tune(SPACE, SPACE.default, lambda config: math.inf, limit=12, rng=random.Random(0))
    assert report.best == SPACE.default
    assert report.seconds == math.inf
    assert (report.failures, report.ranked(), report.sensitivities) == (12, [], ())


def test_the_digest_says_what_matters_where_the_edge_is_and_what_fails() -> None:
    trials: list[Timing] = []
    for config in SPACE.points():
        trials.append((config, Device()(config)))
    report = tune(SPACE, SPACE.default, Device(), limit=len(trials), rng=random.Random(0), earlier=trials)
    digest = {s.name: s for s in report.sensitivities}
    assert [s.ratio for s in report.sensitivities] == sorted((s.ratio for s in report.sensitivities), reverse=True)
    assert report.sensitivities[0].name == "BLOCK"
    assert (digest["MODE"].best, digest["MODE"].at_edge) == ("b", False)
    assert digest["FAST"].ratio == pytest.approx(1.0)
    assert not digest["FAST"].at_edge
    assert digest["STAGES"].at_edge is (digest["STAGES"].best in (1, 6))
    assert digest["BLOCK"].failing == ()
    large = [(c, s) for c, s in trials if c["STAGES"] == 6]
    narrow = tune(SPACE, SPACE.default, Device(), limit=0, rng=random.Random(0), earlier=large)
    assert {s.name: s.failing for s in narrow.sensitivities}["BLOCK"] == (512, 1024)


def test_the_edge_of_a_range_is_flagged() -> None:
    space = TunableSpace({"BLOCK": PowerOfTwo(16, 256, 64), "FAST": Bool(), "MODE": Choice("a", "b")})
    report = tune(
        space, space.default, lambda c: 1 / float(c["BLOCK"]) + 0.001 * (c["MODE"] == "b") + 0.001 * bool(c["FAST"]),
        limit=200, rng=random.Random(0),
    )  # fmt: skip
    assert {s.name: s.at_edge for s in report.sensitivities} == {"BLOCK": True, "FAST": False, "MODE": False}


def test_a_single_start_is_not_trusted_alone() -> None:
    plain = TunableSpace(SPACE.tunables)

    def first_six(space: TunableSpace, seeds: list[Config]) -> list[Config]:
        device = Device()
        tune(space, space.default, device, limit=6, rng=random.Random(0), seeds=seeds)
        return device.timed

    def far(configs: list[Config]) -> bool:
        """True if some configuration is more than a step from every earlier one."""
        return any(
            all(sum(a[n] != b[n] for n in a) > 1 for b in configs[:at]) for at, a in enumerate(configs) if at > 1
        )

    assert far(first_six(plain, [])), "random configurations are wanted where only a default is known"
    assert not far(first_six(plain, [{"BLOCK": 256}]))
    assert not far(first_six(SPACE, []))
