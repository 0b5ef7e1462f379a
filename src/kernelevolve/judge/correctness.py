"""Correctness of one candidate on one workload: two calls on different content, both outputs alive, both compared."""

from __future__ import annotations

import itertools
import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import torch

from kernelevolve.judge import integrity
from kernelevolve.judge.comparison import StructureMismatch, compare
from kernelevolve.judge.integrity import ReferenceEffects
from kernelevolve.judge.oracle import OF_INPUT, OF_PARAMETER, Case
from kernelevolve.judge.rejection import Rejected
from kernelevolve.judge.session import Binding, Call, ProgramSession
from kernelevolve.judge.verdict import OutputError, Stage, VerdictKind
from kernelevolve.workers.layout import Layout, TensorSlot
from kernelevolve.workers.messages import OutputDescription
from kernelevolve.workers.program import qualified_type


@dataclass(slots=True)
class BoundCandidate:
    """A candidate with one workload constructed and bound, and what its calls must look like."""

    session: ProgramSession
    instance: str
    binding: Binding
    effects: ReferenceEffects
    device_type: str
    run_seconds: float

    def call(self, case: Case, timeout: float | None = None, *, graph: bool = False) -> Call:
        """One call on a case, or the replay of one."""
        self.session.prepare(self.binding, case.inputs, timeout or self.run_seconds)
        return self.session.call(self.instance, [self.binding], timeout or self.run_seconds, graph=graph)

    def settle(self, call: Call, case: Case, stage: Stage) -> dict[str, torch.Tensor]:
        """Check the form of an output and its side effects, and take a copy of it. Raises Rejected."""
        (described,), _ = self.session.describe(call)
        self.check_form(described, case, stage)
        outputs = self._pull(call, case)
        outside = None if self.binding.zones is None else self.binding.zones.broken()
        if outside is not None:
            raise Rejected(VerdictKind.WRONG, Stage.INTEGRITY, f"the call writes {outside}")
        changed = integrity.changed_inputs(case.inputs, self.session.inputs_now(self.binding), self.effects.mutates)
        if changed:
            reason = f"the call changed input {', '.join(changed[:4])}, which the reference leaves as it is"
            raise Rejected(VerdictKind.WRONG, Stage.INTEGRITY, reason)
        if case.left:
            path = integrity.left_unchanged(case.left, self.session.inputs_now(self.binding))
            if path is not None:
                reason = f"the reference writes to input {path}, and the call leaves something else there"
                raise Rejected(VerdictKind.WRONG, Stage.INTEGRITY, reason)
        return outputs

    def check_form(self, outputs: Sequence[OutputDescription], case: Case, stage: Stage) -> None:
        """Whether an output is made of what the reference's is made of. Raises Rejected."""
        described = {output.path: output for output in outputs}
        for expected in case.expected:
            found = described.get(expected.path)
            if found is None:
                raise Rejected(VerdictKind.WRONG, stage, f"there is no output {expected.path or '(the result)'}")
            where = f"output {expected.path}"
            if found.type != "torch.Tensor":
                raise Rejected(VerdictKind.WRONG, stage, f"{where} is a {found.type}, not a torch.Tensor")
            if found.shape != tuple(expected.shape):
                reason = f"{where} has shape {list(found.shape)}, the reference's has {list(expected.shape)}"
                raise Rejected(VerdictKind.WRONG, stage, reason)
            if found.dtype != dtype_name(expected.dtype):
                reason = f"{where} is {found.dtype}, the reference's is {dtype_name(expected.dtype)}"
                raise Rejected(VerdictKind.WRONG, stage, reason)
            if found.device != self.device_type:
                raise Rejected(VerdictKind.WRONG, stage, f"{where} lies on {found.device}, not on {self.device_type}")
            if found.aliases and expected.path not in self.effects.aliases:
                reason = f"{where} shares memory with input {found.aliases[0]}, the reference's does not"
                raise Rejected(VerdictKind.WRONG, Stage.INTEGRITY, reason)
        for path, value in self.effects.plain.items():
            if path not in described or described[path].type != qualified_type(value):
                raise Rejected(VerdictKind.WRONG, stage, f"output {path} is not a {type(value).__name__}")
            if path in self.effects.fixed and not integrity.same_plain(value, described[path].value):
                reason = f"output {path} is {described[path].value!r}, the reference's is {value!r}"
                raise Rejected(VerdictKind.WRONG, stage, reason)
        extra = sorted(set(described) - {expected.path for expected in case.expected} - set(self.effects.plain))
        if extra:
            raise Rejected(VerdictKind.WRONG, stage, f"there is an output {extra[0]} that the reference does not have")

    def _pull(self, call: Call, case: Case) -> dict[str, torch.Tensor]:
        outputs, _ = self.session.pull(call, {0: output_slots(case, Layout())}, self.run_seconds)
        return outputs[0]

    def check_pair(self, one: Call, first: Case, second: Case) -> tuple[OutputError, ...]:
        """The outputs of a call and of another one on different content, with both alive. Raises Rejected."""
        early = self.settle(one, first, Stage.SMOKE)
        errors = compare_or_reject(first, early)
        two = self.call(second)
        errors += compare_or_reject(second, self.settle(two, second, Stage.CORRECTNESS))
        late = self._pull(one, first)
        for path in early.keys() - self.effects.aliases:
            if not integrity.same_bytes(early[path], late[path]):
                reason = f"output {path} of one call was overwritten by the next call, or by writing to its inputs"
                raise Rejected(VerdictKind.WRONG, Stage.INTEGRITY, reason)
        self.session.forget(one)
        self.session.forget(two)
        return errors

    def check_gradients(self, case: Case, patience: float) -> tuple[OutputError, ...]:
        """The gradients of one call, for inputs and parameters. Raises Rejected.

        ``patience`` is in seconds: just-in-time compilers and libraries load in the first backward call too.
        """
        call = self.call(case)
        layout = Layout()
        slots = {e.path: layout.reserve(tuple(e.shape), e.dtype) for e in case.gradients}
        inputs, weights = (
            {path.removeprefix(kind): slot for path, slot in slots.items() if path.startswith(kind)}
            for kind in (OF_INPUT, OF_PARAMETER)
        )
        by_input, by_parameter = self.session.differentiate(
            call, self.instance, case.cotangents, inputs, weights, layout, patience
        )
        self.session.forget(call)
        found = {OF_INPUT + path: leaf for path, leaf in by_input.items()}
        found |= {OF_PARAMETER + name: leaf for name, leaf in by_parameter.items()}
        return compare_or_reject(replace(case, expected=list(case.gradients)), found)

    def check_call(self, call: Call, case: Case, stage: Stage) -> tuple[OutputError, ...]:
        """The output of one call. Raises Rejected."""
        errors = compare_or_reject(case, self.settle(call, case, stage), stage)
        self.session.forget(call)
        return errors

    def checks(
        self, first: Sequence[Case], cases: Sequence[Case], rng: random.Random, stage: Stage, *, graph: bool = False
    ) -> Iterator[tuple[OutputError, ...]]:
        """Each step compares one more call, or replay, on a case: the first ones in turn, then any. Raises Rejected."""
        for case in itertools.chain(first, iter(lambda: rng.choice(cases), None)):
            yield self.check_call(self.call(case, graph=graph), case, stage)


def compare_or_reject(
    case: Case, outputs: Mapping[str, torch.Tensor], stage: Stage = Stage.CORRECTNESS
) -> tuple[OutputError, ...]:
    """The errors of an output; Rejected if one is over its limit, or if it is not made of what it must be made of."""
    try:
        errors = tuple(compare(case, outputs))
    except StructureMismatch as mismatch:
        raise Rejected(VerdictKind.WRONG, stage, str(mismatch)) from None
    failed = [error for error in errors if not error.passed]
    if failed:
        raise Rejected(VerdictKind.WRONG, stage, describe_error(failed[0]), "", errors)
    return errors


def describe_error(error: OutputError) -> str:
    """One sentence on an output that is too far from the golden."""
    if error.rms <= error.rms_limit:
        what = f"its largest error is {error.max:.3g}, {error.max_limit:.3g} is allowed"
    else:
        what = f"its rms error is {error.rms:.3g}, {error.rms_limit:.3g} is allowed"
    where = ""
    if error.first_index is not None:
        where = f"; at {list(error.first_index)} it is {error.first_got}, expected {error.first_expected}"
    name = error.output if error.output.startswith((OF_INPUT, OF_PARAMETER)) else f"output {error.output}"
    return f"{name} is wrong on workload {error.workload}: {what}{where}"


def dtype_name(dtype: torch.dtype | str) -> str:
    """'float32' for torch.float32."""
    return str(dtype).removeprefix("torch.")


def output_slots(case: Case, layout: Layout) -> dict[str, TensorSlot]:
    """Dense places for the outputs of a case."""
    return {e.path: layout.reserve(tuple(e.shape), getattr(torch, dtype_name(e.dtype))) for e in case.expected}


def worst(errors: Sequence[OutputError]) -> tuple[OutputError, ...]:
    """For every output of every workload the error that comes closest to its limit."""
    found: dict[tuple[str, str], OutputError] = {}
    for error in errors:
        key = (error.workload, error.output)
        if key not in found or _closeness(error) > _closeness(found[key]):
            found[key] = error
    return tuple(found.values())


def _closeness(error: OutputError) -> float:
    return max(error.rms / max(error.rms_limit, 1e-300), error.max / max(error.max_limit, 1e-300))
