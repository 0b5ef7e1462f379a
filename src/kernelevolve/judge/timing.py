"""Interleaved timing: programs called in turn, in blocks, on content that none has seen.

Within a block every program is called side by side with the others, in random order, so that what the machine does
meanwhile (clock, heat, neighbours) falls on all of them; the statistics pair samples by block.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from statistics import median
from time import perf_counter
from typing import Any

from kernelevolve.judge.session import Binding, Call, ProgramSession
from kernelevolve.judge.settings import TimingPlan
from kernelevolve.judge.verdict import Clock, Samples
from kernelevolve.workers.handle import WorkerFailure
from kernelevolve.workers.messages import ClockName

Inputs = tuple[Any, ...]
_RETAKES = 3


class BaselineLost(Exception):
    """A baseline's worker failed while it was being timed; it says nothing about the candidate."""


@dataclass(slots=True)
class Contestant:
    """One program with one workload bound, and the times taken of it."""

    name: str
    session: ProgramSession
    instance: str
    binding: Binding
    run_seconds: float
    """Deadline of one request."""
    trusted: bool = True
    """True for a baseline, whose failure is the judge's trouble."""
    graph: bool = False
    """True if a captured graph is replayed instead of calling."""
    cost: float = math.inf
    """Seconds of the judge's time for one sample, the least so far."""
    blocks: dict[ClockName, list[tuple[float, ...]]] = field(default_factory=dict)
    handshakes: list[float] = field(default_factory=list)
    """The gap between the judge's and the worker's clock of every undisturbed call by wall clock."""
    gaps: list[float] = field(default_factory=list)
    """The same of every call by wall clock, with all delays in it."""
    taken_again: int = 0
    """Calls that other work on the machine disturbed, and that were repeated."""

    def call(self, inputs: Inputs, clock: ClockName = "wall") -> Call:
        """Put the inputs in place, flush the caches, call."""
        start = perf_counter()
        with self.blamed():
            self.session.prepare(self.binding, inputs, self.run_seconds)
            call = self.session.call(self.instance, [self.binding], self.run_seconds, clock, graph=self.graph)
        self.session.forget(call)
        if clock == "wall":
            self.gaps.append(call.outer - call.wall)
            if not call.disturbed:
                self.handshakes.append(call.gap)
        self.cost = min(self.cost, perf_counter() - start)
        return call

    @contextmanager
    def blamed(self) -> Iterator[None]:
        """Hold while its worker is asked: the failure of a baseline is not the candidate's."""
        try:
            yield
        except WorkerFailure as failure:
            if not self.trusted:
                raise
            raise BaselineLost(f"the baseline {self.name} failed while it was timed: {failure}") from None

    @contextmanager
    def alone(self) -> Iterator[None]:
        """Hold while it is this program's turn. One that is not trusted is stopped afterwards.

        Its threads could otherwise take processors from the others, or go on with what a call left undone.
        """
        self.wake()
        yield
        if not self.trusted:
            self.session.handle.pause()

    def wake(self) -> None:
        """Let it go on after its last turn."""
        if not self.trusted:
            self.session.handle.resume()

    def median(self, clock: ClockName) -> float:
        """Median seconds so far."""
        return median(median(block) for block in self.blocks[clock])

    def samples(self, workload: str, methods: Mapping[ClockName, str]) -> list[Samples]:
        """Everything taken, one record a clock."""
        return [
            Samples(
                program=self.name, workload=workload, clock=Clock(clock), method=methods[clock], blocks=tuple(blocks)
            )
            for clock, blocks in self.blocks.items()
        ]


@dataclass(frozen=True, slots=True)
class TimingSession:
    """How one workload is timed."""

    plan: TimingPlan
    seconds: float
    """This workload's share of the plan's time."""
    clocks: tuple[ClockName, ...]
    fresh: Callable[[], Inputs]
    """Inputs that no program has seen."""
    rng: random.Random
    check: Callable[[], object] | None = None
    """One more call of the candidate on inputs with a golden, whose output is compared; raises if it is wrong."""
    check_rate: float = 0.0
    abandon_above: float | None = None
    """Seconds per call by the first clock above which the candidate is not worth more than the least blocks."""

    def run(self, contestants: Sequence[Contestant]) -> None:
        """Fill the blocks of every contestant."""
        everyone = list(contestants)
        for contestant in everyone:
            # Not recorded: it has been idle, its memory is not mapped yet, and its cost must be known.
            with contestant.alone():
                for _ in range(self.plan.warm_up):
                    contestant.call(self.fresh())
        deadline = perf_counter() + self.seconds
        for index in range(self.plan.blocks):
            self.rng.shuffle(everyone)
            checked = self.rng.random() < self.check_rate
            for contestant in everyone:
                check = self.check if checked and not contestant.trusted else None
                with contestant.alone():
                    self._block(contestant, len(everyone), check, deadline)
            spent = perf_counter() > deadline
            if index + 1 >= self.plan.min_blocks and (spent or any(map(self._hopeless, everyone))):
                break
        for contestant in everyone:
            contestant.wake()
        if self.check is not None:
            self.check()  # A program that grew lazy on the way is still lazy now.

    def _block(
        self, contestant: Contestant, programs: int, check: Callable[[], object] | None, deadline: float
    ) -> None:
        share = self.seconds / (self.plan.blocks * programs * len(self.clocks))
        calls = max(1, min(self.plan.calls, int(share / max(contestant.cost, 1e-9))))
        # Somewhere among the others, so that nothing tells the program which of its calls is compared.
        check_before = self.rng.randrange(calls)
        taken: dict[ClockName, list[float]] = {clock: [] for clock in self.clocks}
        for index in range(calls):
            if check is not None and index == check_before:
                check()
            for clock in self.clocks:
                taken[clock].append(self._undisturbed(contestant, clock, deadline).seconds(clock))
        for clock, times in taken.items():
            contestant.blocks.setdefault(clock, []).append(tuple(times))

    def _undisturbed(self, contestant: Contestant, clock: ClockName, deadline: float) -> Call:
        """A call to which the machine gave its processors; the last of a few if there is none, or no time for more."""
        call = contestant.call(self.fresh(), clock)
        for _ in range(_RETAKES):
            if not call.disturbed or perf_counter() > deadline:
                break
            contestant.taken_again += 1
            call = contestant.call(self.fresh(), clock)
        return call

    def _hopeless(self, contestant: Contestant) -> bool:
        if contestant.trusted or self.abandon_above is None:
            return False
        # The least of all, because a busy machine makes slow calls and never fast ones.
        return min(map(min, contestant.blocks[self.clocks[0]])) > self.abandon_above
