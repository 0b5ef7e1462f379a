"""Interleaved timing on programs whose times are scripted, so that every decision can be checked."""

from __future__ import annotations

import random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kernelevolve.judge.session import Call
from kernelevolve.judge.settings import TimingPlan
from kernelevolve.judge.timing import BaselineLost, Contestant, TimingSession
from kernelevolve.judge.verdict import Clock
from kernelevolve.workers.handle import WorkerTimeout

Log = list[tuple[str, Any]]


class ScriptedHandle:
    """Answers like WorkerHandle, and knows whether it is paused."""

    paused = False

    def pause(self) -> None:
        self.paused = True

    def resume(self) -> None:
        self.paused = False


class ScriptedSession:
    """Answers like ProgramSession, with the times of a script; writes every call into a log."""

    def __init__(self, name: str, seconds: float, log: Log, fail_at: int | None = None) -> None:
        self.name, self.seconds, self.log, self.fail_at = name, seconds, log, fail_at
        self.calls = 0
        self.inputs: Any = None
        self.handle = ScriptedHandle()

    def prepare(self, binding: Any, inputs: Any, timeout: float) -> None:
        self.inputs = inputs

    def call(self, instance: str, bindings: Any, timeout: float, clock: str = "wall", graph: bool = False) -> Call:
        self.calls += 1
        assert not self.handle.paused
        if self.calls == self.fail_at:
            raise WorkerTimeout(timeout)
        self.log.append((self.name, self.inputs))
        return Call((("out", "b"),), self.seconds, self.seconds / 2, self.seconds + 1e-4)

    def forget(self, call: Call) -> None:
        pass


def contestant(name: str, seconds: float, log: Log, **script: Any) -> Contestant:
    session: Any = ScriptedSession(name, seconds, log, **script)
    binding: Any = None
    return Contestant(name, session, "i", binding, 1.0, trusted=name != "candidate")


def timing(log: Log, plan: TimingPlan, seed: int = 0, **options: Any) -> TimingSession:
    counter = iter(range(10_000))
    options = {"seconds": 1.0, "clocks": ("wall",)} | options
    return TimingSession(plan=plan, fresh=lambda: (next(counter),), rng=random.Random(seed), **options)


PLAN = TimingPlan(blocks=5, min_blocks=3, calls=3, seconds=1.0)


def test_every_program_is_in_every_block_and_order_varies() -> None:
    log: Log = []
    programs = [contestant(name, 1e-3, log) for name in ("candidate", "eager", "compile")]
    timing(log, PLAN).run(programs)
    for program in programs:
        (samples,) = program.samples("w", {"wall": "m", "device": "m"})
        assert [len(block) for block in samples.blocks] == [3] * 5
        assert samples.clock is Clock.WALL and samples.seconds == 1e-3
    recorded = [name for name, _ in log[3:]]  # The first call of each is not recorded.
    orders = {tuple(recorded[i : i + 9 : 3]) for i in range(0, 45, 9)}
    assert all(sorted(order) == ["candidate", "compile", "eager"] for order in orders) and len(orders) > 1


def test_no_content_is_used_twice() -> None:
    log: Log = []
    timing(log, PLAN).run([contestant("candidate", 1e-3, log), contestant("eager", 1e-3, log)])
    assert len({inputs for _, inputs in log}) == len(log)


def test_both_clocks_are_taken() -> None:
    log: Log = []
    program = contestant("candidate", 2e-3, log)
    timing(log, PLAN, clocks=("device", "wall")).run([program])
    device, wall = program.samples("w", {"wall": "by wall", "device": "by events"})
    assert (device.seconds, device.method) == (1e-3, "by events")
    assert (wall.seconds, wall.method) == (2e-3, "by wall")


def test_time_is_bounded_but_never_below_the_least_blocks() -> None:
    log: Log = []
    programs = [contestant("candidate", 1e-3, log), contestant("eager", 1e-3, log)]
    timing(log, PLAN, seconds=1e-9).run(programs)
    assert [len(program.blocks["wall"]) for program in programs] == [3, 3]
    assert all(len(block) == 1 for block in programs[0].blocks["wall"])


@pytest.mark.parametrize(("above", "blocks"), [(0.5e-3, 3), (2e-3, 5)])
def test_hopeless_candidates_get_the_least_blocks(above: float, blocks: int) -> None:
    log: Log = []
    programs = [contestant("candidate", 1e-3, log), contestant("eager", 9e-3, log)]
    timing(log, PLAN, abandon_above=above).run(programs)
    assert [len(program.blocks["wall"]) for program in programs] == [blocks, blocks]


@given(seed=st.integers(0, 1000), rate=st.floats(0, 1))
def test_the_last_output_is_always_checked(seed: int, rate: float) -> None:
    log: Log = []
    timing(log, PLAN, seed, check=lambda: log.append(("check", None)), check_rate=rate).run(
        [contestant("candidate", 1e-3, log)]
    )
    assert log[-1][0] == "check"
    assert sum(name == "check" for name, _ in log) <= PLAN.blocks + 1


def test_checks_hide_among_the_calls() -> None:
    places = set()
    for seed in range(30):
        log: Log = []
        session = timing(log, PLAN, seed, check=lambda log=log: log.append(("check", None)), check_rate=1.0)
        session.run([contestant("candidate", 1e-3, log)])
        places |= {i % 4 for i, (name, _) in enumerate(log[1:-1]) if name == "check"}
    assert places == {0, 1, 2}


def test_failure_of_a_baseline_is_not_the_candidates() -> None:
    log: Log = []
    programs = [contestant("candidate", 1e-3, log), contestant("eager", 1e-3, log, fail_at=4)]
    with pytest.raises(BaselineLost, match="eager"):
        timing(log, PLAN).run(programs)
    programs = [contestant("candidate", 1e-3, log, fail_at=4), contestant("eager", 1e-3, log)]
    with pytest.raises(WorkerTimeout):
        timing(log, PLAN).run(programs)


def test_a_candidate_is_stopped_while_others_are_timed() -> None:
    log: Log = []
    candidate, eager = contestant("candidate", 1e-3, log), contestant("eager", 1e-3, log)
    paused: list[bool] = []
    honest = eager.session.call

    def watching(*arguments: Any, **options: Any) -> Call:
        paused.append(candidate.session.handle.paused)  # type: ignore[attr-defined]
        return honest(*arguments, **options)

    eager.session.call = watching  # type: ignore[method-assign]
    timing(log, PLAN).run([candidate, eager])
    assert paused and all(paused)
    assert not candidate.session.handle.paused  # type: ignore[attr-defined]
