"""Faults of a harness that need no candidate: put into the judge's own pieces, which must show them.

Each injects one fault of the catalogue and returns why the judge did not show it, or None. They run on the CPU.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import cache
from pathlib import Path

import torch

from kernelevolve.candidates import Candidate
from kernelevolve.candidates.structure import structure_key
from kernelevolve.judge.certificate import Certificate, make_certificate
from kernelevolve.judge.clocks import below_floor
from kernelevolve.judge.comparison import StructureMismatch, compare
from kernelevolve.judge.oracle import Case, Oracle, Reference
from kernelevolve.judge.selftest import corpus, vacuous
from kernelevolve.judge.selftest.case import Fault
from kernelevolve.judge.statistics import TWIN_SUFFIX, combine, noise_floors, speedup
from kernelevolve.judge.verdict import Clock, Effort, Measurement, Samples, Stage, Verdict, VerdictKind, is_win
from kernelevolve.judge.vetting import vet
from kernelevolve.problems import Problem
from kernelevolve.problems.instance import Instance, load_instance
from kernelevolve.problems.tolerance import TolerancePolicy
from kernelevolve.workers.messages import Ran
from kernelevolve.workers.wire import ReplyReader, WireViolation

_SEED = 2027


def faults() -> tuple[Fault, ...]:
    """All of them, by their numbers."""
    return tuple(sorted(_all(), key=lambda fault: fault.numbers))


def _all() -> Iterator[Fault]:
    yield Fault("nan_time", (5, 34), "A time that is no number is reported.", _nan_time)
    yield Fault("mixed_methods", (27,), "Device time of one program is divided by wall time of another.", _mixed_clocks)
    yield Fault(
        "wall_for_device", (24, 25), "A win by wall time is claimed though device time shows none.", _both_clocks
    )
    yield Fault("worker_against_judge", (5, 9), "A win is claimed by the worker's clock alone.", _worker_against_judge)
    yield Fault("faster_than_physics", (28, 35), "A time below what the memory allows is accepted.", _below_physics)
    yield Fault("best_of_many", (36, 99), "The luckiest of many equal programs is called a win.", _winners_curse)
    yield Fault(
        "noise_as_a_win", (22, 36, 133), "Two processes differ by themselves, and that is claimed.", _noise_floor
    )
    yield Fault("picked_samples", (37,), "Slow samples are cut after the fact.", _picked_samples)
    yield Fault("dropped_failures", (38,), "A workload that failed is left out of the mean.", _dropped_failure)
    yield Fault("mean_of_ratios", (39,), "One huge ratio makes the mean.", _mean_of_ratios)
    yield Fault(
        "poisoned_expectation", (44, 77), "Not-a-numbers are expected everywhere, and equal everything.", _nan_golden
    )
    for name, numbers, tries, source in vacuous.PROBLEMS:
        yield Fault(name, numbers, tries, _vacuous(source))
    yield Fault("mutated_test", (72, 75), "Any one element may be wrong without a sound.", _mutations)
    yield Fault("no_outputs", (73, 74), "Nothing is compared, and nothing is wrong.", _no_outputs)
    yield Fault("loose_policy", (75,), "Limits are so wide that a known-bad result passes.", _known_bad)
    yield Fault("strict_policy", (78,), "The reference fails its own test.", _reference_passes)
    yield Fault("other_file", (83, 84, 116), "Another kernel is shipped than was measured.", _other_file)
    yield Fault("other_problem", (108, 116), "Problem or tolerance are edited after the verdict.", _other_problem)
    yield Fault("near_clone", (98,), "The same program comes again under other names.", _near_clone)
    yield Fault("reported_speedup", (114, 115), "Somebody writes a better speed-up into the record.", _edited_speedup)
    yield Fault("forged_reply", (102, 106), "A reply with a wrong token, or two for one request.", _forged_reply)


# -- times and statistics ----------------------------------------------------------------------------------------------


def _nan_time(place: Path) -> str | None:
    for value in (math.nan, math.inf, -1e-9):
        try:
            Ran(wall=value)
        except ValueError:
            continue
        return f"a time of {value} is taken"
    return None


def _samples(
    program: str, seconds: list[float], *, workload: str = "w", clock: Clock = Clock.WALL, method: str = "m"
) -> Samples:
    return Samples(program=program, workload=workload, clock=clock, method=method, blocks=tuple((s,) for s in seconds))


def _verdict(samples: list[Samples], judge: float = 2.0) -> Verdict:
    """A promotion that timed the candidate beside 'eager' and its twin, by whatever clocks there are.

    ``judge`` is the speed-up by the judge's own clock.
    """
    for workload in dict.fromkeys(s.workload for s in samples):
        for name, factor in {"candidate": 1.0, "eager": judge, "eager" + TWIN_SUFFIX: judge}.items():
            samples = [*samples, _samples(name, [factor * 1e-3] * 9, workload=workload, clock=Clock.JUDGE)]
    mine = [s for s in samples if s.program == "candidate"]
    keys = {(s.program, s.workload, s.clock): s for s in samples}
    speedups = [
        combine([speedup(keys["eager", s.workload, clock], s) for s in mine if s.clock is clock])
        for clock in dict.fromkeys(s.clock for s in mine)
    ]
    measurement = Measurement(samples=tuple(samples), speedups=tuple(speedups), noise_floors=noise_floors(samples))
    return Verdict(
        candidate_id=_CANDIDATE.id, kind=VerdictKind.CORRECT, stage=Stage.PROMOTION, effort=Effort.PROMOTION,
        measurement=measurement,
    )  # fmt: skip


def _around(seconds: float, rng: random.Random, spread: float = 0.05, count: int = 20) -> list[float]:
    return [seconds * math.exp(rng.gauss(0.0, spread)) for _ in range(count)]


def _mixed_clocks(place: Path) -> str | None:
    mine = _samples("candidate", [1e-3] * 20, clock=Clock.DEVICE)
    verdict = _verdict([mine, _samples("eager", [2e-3] * 20, clock=Clock.DEVICE)])
    assert verdict.measurement is not None
    try:
        combine([verdict.measurement.speedups[0], speedup(_samples("eager", [5e-3] * 20), mine)])
    except ValueError:
        return None
    return "speed-ups by two clocks were put together"


def _both_clocks(place: Path) -> str | None:
    samples = [
        _samples("candidate", [1e-3] * 20, clock=Clock.DEVICE), _samples("candidate", [1e-3] * 20),
        _samples("eager", [1e-3] * 20, clock=Clock.DEVICE), _samples("eager", [3e-3] * 20),
        _samples("eager" + TWIN_SUFFIX, [1e-3] * 20, clock=Clock.DEVICE), _samples("eager" + TWIN_SUFFIX, [3e-3] * 20),
    ]  # fmt: skip
    return "wall time made a win that device time denies" if _verdict(samples).wins else None


def _worker_against_judge(place: Path) -> str | None:
    samples = [
        _samples("candidate", [1e-3] * 20),
        *(_samples(n, [2e-3] * 20) for n in ("eager", "eager" + TWIN_SUFFIX)),
    ]
    if _verdict(samples, judge=0.9).wins:
        return "a win by the worker's clock was claimed that the judge's denies"
    return None if _verdict(samples).wins else "a win by all clocks was not claimed"


def _below_physics(place: Path) -> str | None:
    if below_floor(1e-6, [1e-4], 5e-5) is None:
        return "a fiftieth of the least time passed"
    return "an honest time was refused" if below_floor(6e-5, [1e-4], 5e-5) is not None else None


def _winners_curse(place: Path) -> str | None:
    """Sixty equal programs are screened; the luckiest is promoted on fresh samples."""
    rng = random.Random(_SEED)
    claims = 0
    for _ in range(20):
        screened = [min(_around(1e-3, rng, count=5)) for _ in range(60)]
        assert min(screened) < 1e-3  # It looked faster than it is; the promotion times it again.
        samples = [_samples(name, _around(1e-3, rng)) for name in ("candidate", "eager", "eager" + TWIN_SUFFIX)]
        claims += _verdict(samples).wins
    return f"{claims} of 20 searches among equal programs ended with a win" if claims > 1 else None


def _noise_floor(place: Path) -> str | None:
    samples = [
        _samples("candidate", [0.95e-3] * 20), _samples("eager", [1e-3] * 20),
        _samples("eager" + TWIN_SUFFIX, [0.93e-3] * 20),
    ]  # fmt: skip
    if _verdict(samples).wins:
        return "5 % was claimed where a baseline differs from itself by 7 %"
    alone = _verdict(samples[:2])
    return "a win was claimed without a measured noise floor" if alone.wins else None


def _picked_samples(place: Path) -> str | None:
    rng = random.Random(_SEED)
    certificate = _certificate(_verdict([
        _samples("candidate", _around(1e-3, rng)), _samples("eager", _around(1.5e-3, rng)),
        _samples("eager" + TWIN_SUFFIX, _around(1.5e-3, rng)),
    ]))  # fmt: skip
    if certificate.check_consistency():
        return f"an honest certificate was refused: {certificate.check_consistency()}"
    measurement = certificate.verdict.measurement
    assert measurement is not None
    mine = measurement.samples[0]
    picked = mine.model_copy(update={"blocks": tuple(sorted(mine.blocks))[:10]})
    try:
        return None if _with_samples(certificate, (picked, *measurement.samples[1:])).check_consistency() else "kept"
    except ValueError:
        return None  # The blocks of two programs no longer pair.


def _dropped_failure(place: Path) -> str | None:
    """The baseline has samples on one workload of two: no figure over both may be made of it."""
    rng = random.Random(_SEED)
    whole = [
        _samples(name, _around(t, rng), workload=w)
        for w in ("a", "b")
        for name, t in (("candidate", 1e-3), ("eager", 2e-3))
    ]
    certificate = _certificate(_verdict(whole))
    measurement = certificate.verdict.measurement
    assert measurement is not None
    rest = tuple(s for s in measurement.samples if (s.program, s.workload) != ("eager", "b"))
    return None if _with_samples(certificate, rest).check_consistency() else "the missing workload was not missed"


def _mean_of_ratios(place: Path) -> str | None:
    ratios = [100.0, 0.9, 0.9, 0.9]
    parts = [speedup(_samples("eager", [1e-3 * r] * 20), _samples("candidate", [1e-3] * 20)) for r in ratios]
    value = combine(parts).value
    expected = math.prod(ratios) ** (1 / len(ratios))
    return None if math.isclose(value, expected) else f"{value} is not the geometric mean {expected}"


# -- comparison and vetting --------------------------------------------------------------------------------------------


@cache
def _rms_norm() -> tuple[Instance, Case, dict[str, torch.Tensor]]:
    """A problem of two outputs, a case of it, and the reference's own outputs."""
    problem = corpus.problem("rms_norm")
    instance = load_instance(problem, "cpu")
    workload = next(w for w in instance.workloads if w.name == "rows-101")
    case = Oracle(instance, problem.tolerance).case(workload, _SEED)
    return instance, case, Reference(instance, workload, _SEED).outputs(case.inputs)


def _passes(case: Case, outputs: dict[str, torch.Tensor]) -> bool:
    try:
        return all(error.passed for error in compare(case, outputs))
    except StructureMismatch:
        return False


def _nan_golden(place: Path) -> str | None:
    _, case, own = _rms_norm()
    poisoned = replace(case, expected=[replace(e, golden=torch.full_like(e.golden, math.nan)) for e in case.expected])
    return "a right result equals an expectation of not-a-numbers" if _passes(poisoned, own) else None


def _mutations(place: Path) -> str | None:
    """A thousandth at one element, at many places of every output: each must be seen."""
    _, case, own = _rms_norm()
    rng = random.Random(_SEED)
    for path, right in own.items():
        for _ in range(20):
            wrong = right.clone()
            at = rng.randrange(wrong.numel())
            wrong.view(-1)[at] += 1e-3
            if _passes(case, {**own, path: wrong}):
                return f"a thousandth at element {at} of output {path} was not seen"
    return None


def _no_outputs(place: Path) -> str | None:
    _, case, own = _rms_norm()
    if _passes(case, {}):
        return "no outputs at all passed"
    if _passes(case, {"0": own["0"]}):
        return "one of two outputs passed"
    if _passes(case, {path: value[:0] for path, value in own.items()}):
        return "empty outputs passed"
    return "an output too many passed" if _passes(case, {**own, "2": own["0"]}) else None


def _known_bad(place: Path) -> str | None:
    _, case, own = _rms_norm()
    for name, spoilt in (
        ("1 % off", {path: value * 1.01 for path, value in own.items()}),
        ("rounded to bfloat16", {path: value.bfloat16().float() for path, value in own.items()}),
        ("rounded to float16", {path: value.half().float() for path, value in own.items()}),
    ):
        if _passes(case, spoilt):
            return f"a result {name} passed"
    return None


def _reference_passes(place: Path) -> str | None:
    for name in corpus.problem_names():
        problem = corpus.problem(name)
        instance = load_instance(problem, "cpu")
        for workload in instance.workloads:
            case = Oracle(instance, problem.tolerance).case(workload, _SEED)
            if not _passes(case, Reference(instance, workload, _SEED).outputs(case.inputs)):
                return f"the reference of {name} fails on {workload.name}"
    return None


def _vacuous(source: str) -> Callable[[Path], str | None]:
    """Whether vetting finds that a problem, or the usual check on it, cannot tell right from wrong."""

    def inject(place: Path) -> str | None:
        problem = Problem(name="vacuous", source=source)
        instance = load_instance(problem, "cpu")
        report = vet(instance, Oracle(instance, problem.tolerance), instance.workloads[:1])
        if report.vacuous or report.findings[0].idle_inputs or report.vacuous_as_written["1e-2"]:
            return None
        return "vetting has nothing to say about it"

    return inject


# -- records -----------------------------------------------------------------------------------------------------------

_CANDIDATE = Candidate(source="class ModelNew:\n    pass\n", language="pytorch")
_PROBLEM = Problem(name="p", source="class Model: pass\n")


def _certificate(verdict: Verdict) -> Certificate:
    return make_certificate(_PROBLEM, _CANDIDATE, verdict)


def _with_samples(certificate: Certificate, samples: tuple[Samples, ...]) -> Certificate:
    measurement = certificate.verdict.measurement
    assert measurement is not None
    edited = certificate.verdict.model_copy(update={"measurement": measurement.model_copy(update={"samples": samples})})
    return certificate.model_copy(update={"verdict": edited})


def _plain() -> Certificate:
    return _certificate(_verdict([
        _samples("candidate", [1e-3] * 20), _samples("eager", [1.2e-3] * 20),
        _samples("eager" + TWIN_SUFFIX, [1.2e-3] * 20),
    ]))  # fmt: skip


def _other_file(place: Path) -> str | None:
    certificate = _plain()
    if certificate.check_consistency(_PROBLEM, _CANDIDATE.source):
        return "the file that was measured is refused"
    return None if certificate.check_consistency(_PROBLEM, _CANDIDATE.source + "# faster\n") else "another file passes"


def _other_problem(place: Path) -> str | None:
    certificate = _plain()
    for edited in (
        Problem(name="p", source=_PROBLEM.source + "\n"),
        Problem(name="p", source=_PROBLEM.source, tolerance=TolerancePolicy(k=400.0)),
        Problem(name="p", source=_PROBLEM.source, overrides={"batch_size": 1}),
    ):
        if not certificate.check_consistency(edited, _CANDIDATE.source):
            return "an edited problem passes for the one that was judged"
    return None


def _near_clone(place: Path) -> str | None:
    one = "import torch\n\nclass ModelNew(torch.nn.Module):\n    def forward(self, x):\n        return x * 2  # fast\n"
    other = one.replace("# fast", "# faster").replace("\n\n", "\n\n\n")
    return None if structure_key(one) == structure_key(other) else "a comment made another program of it"


def _edited_speedup(place: Path) -> str | None:
    certificate = _plain()
    measurement = certificate.verdict.measurement
    assert measurement is not None
    better = measurement.speedups[0].model_copy(update={"value": 104.0, "low": 103.0, "high": 105.0})
    assert is_win(better, 0.0)
    edited = certificate.verdict.model_copy(
        update={"measurement": measurement.model_copy(update={"speedups": (better,)})}
    )
    forged = certificate.model_copy(update={"verdict": edited})
    return None if forged.check_consistency() else "a speed-up that no sample supports passes"


def _forged_reply(place: Path) -> str | None:
    frame = b'{"token": "guess", "wall": 1e-9}'
    framed = len(frame).to_bytes(4, "little") + frame
    for data in (framed, framed * 2, b"\xff\xff\xff\x7f", b"\x02\0\0\0[]"):
        try:
            ReplyReader().feed(data, "the true token")
        except WireViolation:
            continue
        return f"the frame {data[:20]!r} was taken"
    return None
