"""Vetting: can this problem tell a right kernel from a wrong one? Asked before anything is searched for.

Every workload is put to wrong outputs on purpose. Where one of them passes the judge's own comparison, no verdict on
that workload means anything.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from pydantic import BaseModel, ConfigDict, Field

from kernelevolve.judge.comparison import StructureMismatch, compare
from kernelevolve.judge.oracle import Case, ExpectedOutput, Oracle, Outputs, Reference
from kernelevolve.problems import Role, Workload
from kernelevolve.problems.instance import Instance
from kernelevolve.problems.outputs import flatten_outputs
from kernelevolve.problems.values import map_tensors

_SEED = 1009
"""Vetting asks about the problem, not about a candidate, so its seed need not be secret."""
_CLASSIC = ("1e-4", "1e-2")
"""Tolerances of the usual check |d| <= tol + tol * |reference|, in fp32 and in 16 bits."""


class OutputFinding(BaseModel):
    """Which wrong results pass for one output on one workload."""

    model_config = ConfigDict(frozen=True)

    output: str
    moves: bool = Field(description="True if the output is another one for other inputs")
    wrong: tuple[str, ...] = Field(default=(), description="results without any computation that pass")
    coarse: tuple[str, ...] = Field(default=(), description="right results spoilt by a low precision that pass")


class WorkloadFinding(BaseModel):
    """What a workload can tell."""

    model_config = ConfigDict(frozen=True)

    workload: str
    role: Role
    golden_precision: str = Field(description="'fp64', or 'reference dtype' where the reference refuses fp64")
    random: bool = Field(description="True if a second call on the same inputs gives another result")
    outputs: tuple[OutputFinding, ...]
    idle_inputs: tuple[str, ...] = Field(default=(), description="inputs that can be exchanged without any effect")
    classic: dict[str, tuple[str, ...]] = Field(
        description="tolerance -> wrong results that would pass |d| <= tol + tol * |reference| on every output"
    )

    @property
    def usable(self) -> bool:
        """True if a wrong result is seen: nothing is random, and every output that moves refuses all wrong ones."""
        moving = [output for output in self.outputs if output.moves]
        return not self.random and bool(moving) and not any(output.wrong for output in moving)


class VettingReport(BaseModel):
    """Whether, and on which workloads, a verdict on this problem means anything."""

    model_config = ConfigDict(frozen=True)

    findings: tuple[WorkloadFinding, ...]

    @property
    def usable_workloads(self) -> tuple[str, ...]:
        """Names of the workloads that tell right from wrong."""
        return tuple(finding.workload for finding in self.findings if finding.usable)

    @property
    def vacuous(self) -> bool:
        """True if no workload tells right from wrong: nothing found on this problem may be called a win."""
        return not self.usable_workloads

    @property
    def vacuous_as_written(self) -> dict[str, tuple[str, ...]]:
        """Tolerance -> wrong results that the usual fixed-tolerance check lets pass on the first search workload."""
        first = next(finding for finding in self.findings if finding.role is Role.SEARCH)
        return first.classic

    @property
    def reasons(self) -> tuple[str, ...]:
        """One sentence for everything that a reader should know, the gravest of each workload first."""
        return tuple(sentence for finding in self.findings for sentence in _sentences(finding))

    @property
    def judged_how(self) -> str:
        """One sentence on which workloads carry the verdict."""
        usable, blind = self.usable_workloads, [f.workload for f in self.findings if not f.usable]
        if not usable:
            return "no workload tells a right result from a wrong one, so no result on this problem counts as a win"
        if not blind:
            return "every workload tells a right result from a wrong one"
        return f"{_listed(blind)} cannot tell a right result from a wrong one; the verdict rests on {_listed(usable)}"


@dataclass(frozen=True, slots=True)
class VettedProblem:
    """What vetting said of one problem, or why it could not be run."""

    place: str
    """The path or name that was asked for."""
    name: str
    report: VettingReport | None
    error: str
    """The sentence that says what is wrong with the problem; empty if it was vetted."""
    seconds: float

    @property
    def usable(self) -> bool:
        """True if a verdict on it means something."""
        return self.report is not None and not self.report.vacuous


def vet(
    instance: Instance, oracle: Oracle, workloads: Sequence[Workload], *, until_usable: bool = False
) -> VettingReport:
    """Put wrong outputs to the judge's comparison on each workload, or until one of them sees all that is wrong.

    Those of the search come first. Costs about ten runs of the reference a workload, three of them in fp64. Raises
    InvalidProblem if the reference fails.
    """
    findings: list[WorkloadFinding] = []
    for workload in sorted(workloads, key=lambda w: w.role is not Role.SEARCH):
        findings.append(_examine(instance, oracle, workload))
        if until_usable and findings[-1].usable:
            break
    return VettingReport(findings=tuple(findings))


def _examine(instance: Instance, oracle: Oracle, workload: Workload) -> WorkloadFinding:
    reference = Reference(instance, workload, _SEED)
    case = oracle.case(workload, _SEED)
    others = instance.make_inputs(workload, _SEED + 1)
    own, elsewhere = reference.outputs(case.inputs), reference.outputs(others)
    findings, passing = [], []
    for expected in case.expected:
        right = own[expected.path]
        wrong = dict(_wrong_results(right, elsewhere.get(expected.path), case.inputs))
        findings.append(
            OutputFinding(
                output=expected.path,
                moves=expected.moved_rms > 0,
                wrong=tuple(name for name, result in wrong.items() if _passes(case, expected, result)),
                coarse=tuple(name for name, result in _coarse_results(right) if _passes(case, expected, result)),
            )
        )
        passing.append({tol: _classic_passes(wrong, right, float(tol)) for tol in _CLASSIC})
    again = reference.second_call(case.inputs)
    return WorkloadFinding(
        workload=workload.name,
        role=workload.role,
        golden_precision=case.golden_precision,
        random=not all(_passes(case, expected, again.get(expected.path)) for expected in case.expected),
        outputs=tuple(findings),
        idle_inputs=tuple(_idle_inputs(case.inputs, others, own, reference.outputs)),
        classic={tol: tuple(sorted(set.intersection(*(p[tol] for p in passing)))) for tol in _CLASSIC},
    )


def _passes(case: Case, expected: ExpectedOutput, result: torch.Tensor | None) -> bool:
    """True if the judge would take this result for the output."""
    if result is None:
        return False
    try:
        (error,) = compare(replace(case, expected=[expected]), {expected.path: result})
    except StructureMismatch:
        return False
    return error.passed


def _wrong_results(
    right: torch.Tensor, elsewhere: torch.Tensor | None, inputs: tuple[Any, ...]
) -> Iterator[tuple[str, torch.Tensor]]:
    """What a program could return without doing the work."""
    if elsewhere is not None:
        yield "the result for other inputs", elsewhere
    yield "zeros", torch.zeros_like(right)
    if right.numel():
        finite = right[torch.isfinite(right)] if right.is_floating_point() or right.is_complex() else right
        wide = finite.to(torch.complex128 if right.is_complex() else torch.float64)
        yield "the mean everywhere", torch.full_like(right, wide.mean().item() if wide.numel() else 0)
    for path, leaf in flatten_outputs(inputs):
        if leaf.shape == right.shape and leaf.is_complex() == right.is_complex():
            yield f"a copy of input {path}", leaf.to(right.dtype)


def _coarse_results(right: torch.Tensor) -> Iterator[tuple[str, torch.Tensor]]:
    """The right result as a sloppy program would give it."""
    if not right.is_floating_point():
        return
    yield "a result scaled by 1.01", (right.double() * 1.01).to(right.dtype)
    if right.dtype in (torch.float32, torch.float64):
        yield "a result rounded to bfloat16", right.to(torch.bfloat16).to(right.dtype)
        # TF32 keeps ten bits of the mantissa, as float16 does, but fp32's range: round the mantissa alone.
        mantissa, exponent = torch.frexp(right)
        yield "a result rounded to TF32", torch.ldexp((mantissa * 2048).round() / 2048, exponent)


def _classic_passes(wrong: dict[str, torch.Tensor], right: torch.Tensor, tolerance: float) -> set[str]:
    """Names of the wrong results within |d| <= tol + tol * |reference| everywhere, not-a-numbers equal."""
    return {
        name
        for name, result in wrong.items()
        if result.shape == right.shape
        and torch.allclose(
            result.to(_comparable(right)), right.to(_comparable(right)), rtol=tolerance, atol=tolerance, equal_nan=True
        )
    }


def _comparable(tensor: torch.Tensor) -> torch.dtype:
    return torch.complex128 if tensor.is_complex() else torch.float64


def _idle_inputs(
    inputs: tuple[Any, ...], others: tuple[Any, ...], own: Outputs, run: Callable[[tuple[Any, ...]], Outputs]
) -> Iterator[str]:
    """Paths of tensor inputs that can be exchanged for those of another draw without changing a bit of the result."""
    replacements = dict(flatten_outputs(others))
    for path, leaf in flatten_outputs(inputs):
        if torch.equal(leaf, replacements[path]):
            continue
        result = run(_exchanged(inputs, leaf, replacements[path]))
        if all(torch.equal(result[name], right) for name, right in own.items()):
            yield path


def _exchanged(inputs: tuple[Any, ...], old: torch.Tensor, new: torch.Tensor) -> tuple[Any, ...]:
    exchanged: tuple[Any, ...] = map_tensors(inputs, lambda tensor: new if tensor is old else tensor)
    return exchanged


def _sentences(finding: WorkloadFinding) -> Iterator[str]:
    where = f"on workload {finding.workload}"
    if finding.random:
        yield f"{where} a second call on the same inputs gives another result"
    if not any(output.moves for output in finding.outputs):
        yield f"{where} the inputs do not change the result"
    for output in finding.outputs:
        if output.moves and output.wrong:
            yield f"{where} output {output.output} cannot be told from {_listed(output.wrong)}"
        if output.moves and output.coarse:
            yield f"{where} output {output.output} cannot be told from {_listed(output.coarse)}"
    for path in finding.idle_inputs:
        yield f"{where} input {path} does not change the result"
    if finding.golden_precision != "fp64":
        yield f"{where} the reference does not run in fp64, so its own error is estimated from nudged inputs"


def _listed(names: Sequence[str]) -> str:
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"
