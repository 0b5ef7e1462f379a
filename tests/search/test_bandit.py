"""The bandit over operators."""

from __future__ import annotations

import json
import random
from collections import Counter

import pytest

from kernelevolve.search.bandit import Bandit

ARMS = ("mutate", "combine", "retune")


def play(bandit: Bandit, chances: dict[str, float], rounds: int, seed: int = 0) -> Counter[str]:
    """Each arm improves by a random 0 to 20 % with its own probability."""
    rng = random.Random(seed)
    chosen: Counter[str] = Counter()
    for _ in range(rounds):
        arm = bandit.choose(ARMS, rng)
        bandit.update(arm, rng.random() * 0.2 if rng.random() < chances[arm] else 0.0)
        chosen[arm] += 1
    return chosen


def test_every_arm_is_used_before_any_is_used_again() -> None:
    assert play(Bandit(), dict.fromkeys(ARMS, 0.5), 3) == Counter(ARMS)


def test_what_earns_is_used_most_and_nothing_is_given_up() -> None:
    chosen = play(Bandit(), {"mutate": 0.05, "combine": 0.6, "retune": 0.1}, 300)
    assert chosen["combine"] > 150
    assert min(chosen.values()) >= 10


def test_it_changes_its_mind_when_the_arms_change() -> None:
    bandit = Bandit()
    play(bandit, {"mutate": 0.7, "combine": 0.02, "retune": 0.02}, 150)
    later = play(bandit, {"mutate": 0.02, "combine": 0.02, "retune": 0.7}, 150, seed=1)
    assert later["retune"] > later["mutate"] + later["combine"]


def test_arms_without_any_reward_take_turns() -> None:
    chosen = play(Bandit(), dict.fromkeys(ARMS, 0.0), 90)
    assert max(chosen.values()) - min(chosen.values()) <= 10


def test_a_dear_arm_earns_less() -> None:
    bandit, rng = Bandit(exploration=0.1), random.Random(0)
    chosen: Counter[str] = Counter()
    for _ in range(100):
        arm = bandit.choose(("cheap", "dear"), rng)
        bandit.update(arm, 0.1, cost=1.0 if arm == "cheap" else 20.0)
        chosen[arm] += 1
    assert chosen["cheap"] > 3 * chosen["dear"]


def test_an_arm_that_is_not_offered_is_not_chosen() -> None:
    bandit = Bandit()
    play(bandit, dict.fromkeys(ARMS, 0.5), 20)
    assert {bandit.choose(["retune"], random.Random(0)) for _ in range(5)} == {"retune"}
    with pytest.raises(ValueError, match="no arm"):
        bandit.choose([], random.Random(0))


def test_it_goes_on_from_its_state() -> None:
    bandit, again = Bandit(), Bandit()
    chances = {"mutate": 0.3, "combine": 0.4, "retune": 0.1}
    play(bandit, chances, 40)
    again.load_state_dict(json.loads(json.dumps(bandit.state_dict())))
    assert play(bandit, chances, 60, seed=3) == play(again, chances, 60, seed=3)
    assert bandit.state_dict() == again.state_dict()
