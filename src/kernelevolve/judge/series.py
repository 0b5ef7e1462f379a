"""Series: many calls in a row, each on inputs of its own, with all outputs kept, by the judge's own clock.

What a worker says of its time is said by a process that runs a stranger's code. The judge's clock does not lie, but it
sees a whole exchange: request, work, reply. A series makes the work long against the rest. What the rest takes is
learnt from the baselines, which answer the same requests. So that no call of it can be left out, put off or answered
from memory, each has inputs that were never seen, they are overwritten before the outputs are asked for, all outputs
are handed over at once by the clock (the first time and again), and one of them, which the program cannot guess, is
compared with what the reference makes of it.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from math import ceil
from statistics import median
from time import perf_counter

import torch

from kernelevolve.judge.clocks import Bounds
from kernelevolve.judge.correctness import BoundCandidate, compare_or_reject, output_slots
from kernelevolve.judge.oracle import Case
from kernelevolve.judge.rejection import Rejected
from kernelevolve.judge.session import Binding, Call
from kernelevolve.judge.timing import Contestant, Inputs
from kernelevolve.judge.verdict import Clock, OutputError, Samples, Stage, VerdictKind
from kernelevolve.workers.layout import Layout, TensorSlot, leaves, same_leaves
from kernelevolve.workers.messages import ClockName, OutputDescription

SERIES_SECONDS = 5e-3
"""Length of a series against which the noise of a hand-shake is small."""
MOST_CALLS = 256
_LEAST_CALLS = 5
"""So many outputs live side by side wherever calls are short enough: a program with fewer buffers is seen."""
_LONG_CALL_SECONDS = 0.1
_MORE_SECONDS = 3.0
"""For rounds beyond those that are always taken."""
_SHORTER = 3
"""Part of the calls that a series of ``run_shorter`` has."""
_BYTES = {"cpu": 32 << 20, "cuda": 1 << 30}
"""Memory for the inputs of a series and its outputs, these twice."""
_MOST_BYTES = {"cpu": 1 << 30, "cuda": 16 << 30}
"""The same where it is needed for the least number of calls."""
_HEAD_START = 1.5
_LONGEST_HEAD_START = 0.05
"""Seconds."""
_BASELINE_HAND_OVERS = 2
"""In so many rounds a baseline's outputs are handed over, to know what that costs."""
_COPIED_BYTES = 4 << 30
"""Outputs of a series that are looked at side by side; of more only those with a golden are."""
_PLACES = 64
"""Elements by which outputs are compared with each other."""
_LEAST_ALIKE = 3
_ALIKE = 0.1
"""Distance of two outputs over the usual distance below which the later is compared with its golden."""
_LARGEST = 1e100
"""So that distances of large values are finite."""
METHOD = "judge's clock over a series of calls on different inputs, hand-shake of the baselines subtracted"

Places = Mapping[int, Mapping[str, TensorSlot]]


def series_calls(seconds: float, case: Case, device_type: str) -> int:
    """How many calls of this length make a series."""
    inputs, outputs = Layout(), Layout()
    inputs.place_all(case.inputs)
    output_slots(case, outputs)
    each = inputs.bytes + 2 * outputs.bytes
    least = min(_LEAST_CALLS, _MOST_BYTES[device_type] // each) if seconds < _LONG_CALL_SECONDS else 1
    wanted = ceil(SERIES_SECONDS / max(seconds, 1e-7))
    return max(1, least, min(MOST_CALLS, _BYTES[device_type] // each, wanted))


@dataclass(frozen=True, slots=True)
class Taken:
    """One series of one program."""

    calls: int
    claimed: float
    """Seconds for all calls, by the worker's clock."""
    outer: float
    """The same by the judge's, with the hand-shake and all delays."""
    delayed: float = 0.0
    """Seconds of it for which one of the two that talk stood waiting for a processor."""
    stood: float = 0.0
    """Seconds for which all threads of the two did, one added to the other."""

    @property
    def least(self) -> float:
        """Seconds that it took at least, had nobody else been on the machine."""
        return max(0.0, self.outer - self.stood)

    @property
    def gap(self) -> Bounds:
        """What the worker's clock leaves unexplained.

        Other threads of a program may have waited too, but within the calls, so both clocks have seen that.
        """
        return Bounds(self.outer - self.delayed - self.claimed, self.outer - self.claimed)


@dataclass(frozen=True, slots=True)
class HandOver:
    """Seconds to hand over all outputs of a series, with cold caches: for the first time, and once more."""

    calls: int
    first: Bounds
    again: Bounds


@dataclass(slots=True)
class SeriesSession:
    """Series of all programs in turn, in rounds."""

    candidate: Contestant
    others: Sequence[Contestant]
    bound: BoundCandidate
    calls: int
    clock: ClockName
    known: Callable[[], Case]
    """A case with a golden."""
    fresh: Callable[[], Inputs]
    """Inputs that nobody has seen."""
    golden: Callable[[Inputs], Case]
    """What must come out for such inputs."""
    rng: random.Random
    stage: Stage
    taken: dict[str, list[Taken]] = field(default_factory=dict)
    """By program; the i-th of each belong to one round."""
    hand_overs: dict[str, list[HandOver]] = field(default_factory=dict)
    errors: list[OutputError] = field(default_factory=list)
    _head_start: float | None = None

    def run(self, rounds: int, *, more: int = 0) -> None:
        """Take so many rounds, and up to so many more while they are quick. Raises Rejected."""
        everyone = [self.candidate, *self.others]
        # Not recorded: memory for many outputs is new to the programs, and how far a host must run ahead is unknown.
        launching = max(self._take(program, "wall", None).outer for program in everyone)
        if self.clock == "device":
            self._head_start = min(_LONGEST_HEAD_START, _HEAD_START * launching)
        unknown = self.rng.randrange(rounds)
        for number in range(rounds):
            self._round(hand_overs=number < _BASELINE_HAND_OVERS, golden=number == unknown)
        deadline = perf_counter() + _MORE_SECONDS
        for _ in range(more):
            if perf_counter() > deadline:
                break
            self._round(hand_overs=False, golden=False)

    def run_shorter(self, rounds: int) -> None:
        """Take further rounds, which are likelier to pass between two disturbances. Raises Rejected.

        A program can tell them from the others, so outputs are handed over in all, and one of which it cannot know is
        compared in all.
        """
        self.calls = max(min(self.calls, _LEAST_CALLS), ceil(self.calls / _SHORTER))
        for number in range(rounds):
            self._round(hand_overs=number < _BASELINE_HAND_OVERS, golden=True)

    def _round(self, *, hand_overs: bool, golden: bool) -> None:
        everyone = [self.candidate, *self.others]
        self.rng.shuffle(everyone)
        for program in everyone:
            checked = program is self.candidate or (program is self.fastest and hand_overs)
            found = self._take(program, self.clock, self._head_start, checked=checked, golden=golden)
            self.taken.setdefault(program.name, []).append(found)

    @property
    def fastest(self) -> Contestant | None:
        """The baseline that hands over as many outputs as the candidate does."""
        return min(self.others, key=lambda other: other.median(self.clock), default=None)

    def _calls_of(self, program: Contestant) -> int:
        """How many calls its series has: the hand-shake of a slow baseline shows in a few."""
        if program is self.candidate or program is self.fastest:
            return self.calls
        return min(self.calls, ceil(SERIES_SECONDS / program.median("wall")))

    @property
    def hand_shake(self) -> float:
        """Seconds of an exchange that are not work, in the median over the baselines' series."""
        return max(0.0, median(self.usual_gaps)) if self.others else 0.0

    @property
    def usual_gaps(self) -> list[float]:
        """What the clocks of the baselines leave unexplained, one number a series."""
        return [taken.gap.low for other in self.others for taken in self.taken[other.name]]

    def seconds(self, program: str) -> list[Bounds]:
        """Seconds per call by the judge's clock, one for each round.

        What speaks for a program has the shortest hand-shake taken off: a busy machine makes the others longer.
        """
        usual, shortest = self.hand_shake, max(0.0, min(self.usual_gaps, default=0.0))
        return [
            Bounds(max(taken.least - usual, 1e-9) / taken.calls, max(taken.outer - shortest, 1e-9) / taken.calls)
            for taken in self.taken[program]
        ]

    def samples(self, workload: str) -> list[Samples]:
        """Everything taken, one record a program.

        Delays are left in: they fall on all programs alike, and one that a program has provoked must not speak for it.
        """
        return [
            Samples(
                program=program.name, workload=workload, clock=Clock.JUDGE, method=METHOD,
                blocks=tuple((seconds.high,) for seconds in self.seconds(program.name)),
            )
            for program in (self.candidate, *self.others)
        ]  # fmt: skip

    def _take(
        self,
        program: Contestant,
        clock: ClockName,
        head_start: float | None,
        *,
        checked: bool = False,
        golden: bool = False,
    ) -> Taken:
        known, calls = self.known(), self._calls_of(program)
        inputs = [known.inputs, *(self.fresh() for _ in range(calls - 1))]
        session, timeout = program.session, program.run_seconds
        with program.alone(), program.blamed(), session.series(inputs) as bindings:
            session.ready(bindings, timeout)
            call = session.call(program.instance, bindings, timeout, clock, head_start)
            if checked:
                self._hand_over(program, call, bindings, known, inputs, golden=golden)
            session.forget(call)
        return Taken(calls, call.seconds(clock), call.outer, call.delayed, call.stood)

    def _hand_over(
        self,
        program: Contestant,
        call: Call,
        bindings: Sequence[Binding],
        known: Case,
        inputs: Sequence[Inputs],
        *,
        golden: bool,
    ) -> None:
        """Have all outputs handed over twice; compare the candidate's first one, and with ``golden`` one more.

        One that is much like an earlier one is compared in any case: it may be that, and not the result of its call.
        """
        session, timeout = program.session, program.run_seconds
        mine = program is self.candidate
        effects = self.bound.effects
        if not effects.aliases and not effects.mutates:
            session.spoil(bindings)
        cases = {0: known}
        if mine and golden and len(inputs) > 1:
            chosen = self.rng.randrange(1, len(inputs))
            cases[chosen] = self.golden(inputs[chosen])
        places = self._places(bindings, cases)
        session.ready((), timeout)
        described, describing = session.describe(call)
        if mine:
            for index, case in cases.items():
                self.bound.check_form(described[index], case, self.stage)
        if any(_shapes(described[index]) != _shapes(described[0]) for index in places if index not in cases):
            places = self._places(bindings[:1], cases)  # Shapes hang on the contents, and only these are known.
        extents = sum(slot.extent for slots in places.values() for slot in slots.values())
        wanted = places if mine and extents <= _COPIED_BYTES else cases if mine else ()
        outputs, pulling = session.pull(call, places, timeout, wanted=wanted)
        if mine:
            suspect = much_alike(outputs, self.rng)
            if suspect is not None and suspect not in cases:
                cases[suspect] = self.golden(inputs[suspect])
            for index, case in cases.items():
                self.errors += self._compare(case, outputs[index])
        again = session.hand_over(call, places, timeout)
        self.hand_overs.setdefault(program.name, []).append(HandOver(len(bindings), describing + pulling, again))

    def _compare(self, case: Case, outputs: dict[str, torch.Tensor]) -> tuple[OutputError, ...]:
        try:
            return compare_or_reject(case, outputs, self.stage)
        except Rejected as rejected:
            reason = f"in a series of {self.calls} calls whose outputs all live, {rejected.reason}"
            raise Rejected(VerdictKind.WRONG, self.stage, reason, "", rejected.errors) from None

    def _places(self, bindings: Sequence[Binding], cases: Mapping[int, Case]) -> Places:
        """Where the outputs go: all of them if all inputs have the same shapes, else those of the cases."""
        layout = Layout()
        alike = [i for i, binding in enumerate(bindings) if _same_form(binding.slots, bindings[0].slots)]
        places = {index: output_slots(cases.get(index, cases[0]), layout) for index in alike}
        return places | {i: output_slots(case, layout) for i, case in cases.items() if i not in places}


def much_alike(outputs: Mapping[int, Mapping[str, torch.Tensor]], rng: random.Random) -> int | None:
    """The later of the two outputs that are most alike, by the number of its call, if no others are nearly as much so.

    They are looked at in a few secret places. None if they are too few or too small to tell.
    """
    calls = sorted(outputs)
    paths = [path for path, leaf in outputs[calls[0]].items() if leaf.is_floating_point() and leaf.numel() >= _PLACES]
    if len(calls) < _LEAST_ALIKE or not paths:
        return None
    path = rng.choice(paths)
    if len({outputs[call][path].shape for call in calls}) > 1:
        return None
    size = outputs[calls[0]][path].numel()
    at = torch.tensor([rng.randrange(size) for _ in range(_PLACES)], device=outputs[calls[0]][path].device)
    seen = torch.stack([outputs[call][path].detach().reshape(-1)[at].double() for call in calls]).nan_to_num()
    apart = torch.pdist(seen.clamp(-_LARGEST, _LARGEST).cpu())
    nearest = int(apart.argmin())
    if float(apart[nearest]) > _ALIKE * float(apart.median()):
        return None
    pairs = torch.triu_indices(len(calls), len(calls), offset=1)
    return calls[int(pairs[1, nearest])]


def _shapes(described: Sequence[OutputDescription]) -> list[tuple[str, str, tuple[int, ...]]]:
    return [(leaf.path, leaf.dtype, leaf.shape) for leaf in described]


def _same_form(a: object, b: object) -> bool:
    """Whether two trees of places hold tensors of the same shapes, wherever they lie."""
    return same_leaves(*(tuple(_form(leaf) for _, leaf in leaves(tree)) for tree in (a, b)))


def _form(leaf: object) -> object:
    return (str(leaf.shape), leaf.dtype) if isinstance(leaf, TensorSlot) else repr(leaf)
