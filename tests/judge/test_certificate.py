"""Certificates: complete, and whatever in them is changed afterwards shows."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from kernelevolve.candidates import Candidate
from kernelevolve.candidates.structure import materialise
from kernelevolve.judge.cases import SEED, SEED_COMMITMENT, seed_commitment
from kernelevolve.judge.certificate import Certificate, make_certificate, write_certificate
from kernelevolve.judge.statistics import combine, noise_floors, speedup
from kernelevolve.judge.verdict import (
    Clock,
    Effort,
    Measurement,
    OutputError,
    Roofline,
    Samples,
    Stage,
    Verdict,
    VerdictKind,
)
from kernelevolve.problems import Problem

PROBLEM = Problem(name="scale", source="class Model: ...\n", overrides={"batch_size": 4})
SOURCE = (
    "from kernelevolve.candidates.space import Int, TunableSpace\n"
    "TUNABLES = TunableSpace({'N': Int(1, 4)})\n"
    "CONFIG = TUNABLES.default\n"
    "class ModelNew: ...\n"
)
CANDIDATE = Candidate(source=SOURCE, language="cpp", config={"N": 3})
SECONDS = {"candidate": 1e-3, "eager": 3e-3, "compile": 1.5e-3, "compile again": 1.503e-3}


def samples(program: str, workload: str, clock: Clock, rng: np.random.Generator) -> Samples:
    times = SECONDS[program] * (2 if clock is Clock.WALL else 1) * np.exp(0.01 * rng.normal(size=(20, 5)))
    blocks = tuple(tuple(float(t) for t in block) for block in times)
    return Samples(program=program, workload=workload, clock=clock, method="simulated", blocks=blocks)


def verdict(effort: Effort = Effort.PROMOTION, clocks: tuple[Clock, ...] = tuple(Clock)) -> Verdict:
    rng = np.random.default_rng(5)
    taken = {(p, w, c): samples(p, w, c, rng) for p in SECONDS for w in ("small", "large") for c in clocks}
    speedups = tuple(
        combine([speedup(taken[b, w, c], taken["candidate", w, c]) for w in ("small", "large")])
        for b in ("eager", "compile")
        for c in clocks
    )
    environment = {"device": "imaginary", "torch": "2"}
    environment |= {SEED: "17", SEED_COMMITMENT: seed_commitment("17")}
    error = OutputError(
        workload="small",
        output="0",
        rms=1e-7,
        rms_limit=2e-7,
        max=1e-6,
        max_limit=2e-6,
        moved_rms=1.0,
        reference_rms=1e-7,
    )
    rooflines = tuple(
        Roofline(
            workload=w, bytes=1e6, flops=0.0, floor_seconds=4e-4, bound="memory",
            fraction=4e-4 / taken["candidate", w, clocks[0]].seconds,
        )
        for w in ("small", "large")
    )  # fmt: skip
    return Verdict(
        candidate_id=CANDIDATE.id, kind=VerdictKind.CORRECT, stage=Stage.PROMOTION, effort=effort, errors=(error,),
        measurement=Measurement(
            samples=tuple(taken.values()), speedups=speedups, noise_floors=noise_floors(tuple(taken.values())),
            environment=environment,
        ),
        rooflines=rooflines,
    )  # fmt: skip


@pytest.fixture(scope="module")
def certificate() -> Certificate:
    return make_certificate(PROBLEM, CANDIDATE, verdict(), {"compiler": "imaginary 1.0"})


def test_holds_what_a_reader_needs(certificate: Certificate) -> None:
    assert certificate.device == "imaginary"
    assert set(certificate.baseline_seconds) == {"eager", "compile"}
    assert certificate.baseline_seconds["eager"] == pytest.approx(3e-3, rel=0.02)
    assert certificate.candidate_seconds == pytest.approx(1e-3, rel=0.02)
    assert certificate.noise_floors == {c: pytest.approx(0.002, abs=0.01) for c in Clock}
    assert certificate.faster
    assert certificate.environment["compiler"] == "imaginary 1.0"
    assert certificate.environment["language"].startswith("cpp: ")
    assert certificate.problem.overrides == {"batch_size": 4}
    assert certificate.problem.tolerance == PROBLEM.tolerance


def test_follows_from_its_samples_and_files_after_a_round_trip(tmp_path: Path) -> None:
    written = write_certificate(PROBLEM, CANDIDATE, verdict(), tmp_path / "certificate.json")
    read = Certificate.model_validate_json((tmp_path / "certificate.json").read_text())
    assert read == written
    assert read.check_consistency(PROBLEM, materialise(CANDIDATE)) == []


@pytest.mark.parametrize("clocks", [(Clock.WALL,), (Clock.DEVICE, Clock.WALL)])
def test_one_clock_or_two(clocks: tuple[Clock, ...]) -> None:
    assert make_certificate(PROBLEM, CANDIDATE, verdict(clocks=clocks)).check_consistency() == []


def test_a_screen_is_never_faster() -> None:
    screened = make_certificate(PROBLEM, CANDIDATE, verdict(Effort.SCREEN))
    assert not screened.faster
    assert screened.check_consistency() == []


def test_needs_a_measurement() -> None:
    with pytest.raises(ValueError, match="measurement"):
        make_certificate(PROBLEM, CANDIDATE, verdict().model_copy(update={"measurement": None}))


def remeasured(c: Certificate, **changes: object) -> Certificate:
    assert c.verdict.measurement is not None
    measurement = c.verdict.measurement.model_copy(update=changes)
    return c.model_copy(update={"verdict": c.verdict.model_copy(update={"measurement": measurement})})


def with_speedup(c: Certificate, **changes: float) -> Certificate:
    assert c.verdict.measurement is not None
    first, *others = c.verdict.measurement.speedups
    return remeasured(c, speedups=(first.model_copy(update=changes), *others))


def with_faster_candidate(c: Certificate) -> Certificate:
    assert c.verdict.measurement is not None
    changed = []
    for s in c.verdict.measurement.samples:
        if s.program == "candidate":
            s = s.model_copy(update={"blocks": tuple(tuple(0.9 * t for t in block) for block in s.blocks)})
        changed.append(s)
    return remeasured(c, samples=tuple(changed))


def without(c: Certificate, program: str) -> Certificate:
    assert c.verdict.measurement is not None
    return remeasured(c, samples=tuple(s for s in c.verdict.measurement.samples if s.program != program))


def without_speedup(c: Certificate) -> Certificate:
    assert c.verdict.measurement is not None
    return remeasured(c, speedups=c.verdict.measurement.speedups[1:])


def with_error_over_limit(c: Certificate) -> Certificate:
    error = c.verdict.errors[0].model_copy(update={"rms": 1.0})
    return c.model_copy(update={"verdict": c.verdict.model_copy(update={"errors": (error,)})})


def with_fraction(c: Certificate) -> Certificate:
    first, *others = c.verdict.rooflines
    rooflines = (first.model_copy(update={"fraction": 0.99}), *others)
    return c.model_copy(update={"verdict": c.verdict.model_copy(update={"rooflines": rooflines})})


@pytest.mark.parametrize(
    ("tamper", "words"),
    [
        (lambda c: c.model_copy(update={"environment": {"device": "better"}}), "environment"),
        (lambda c: c.model_copy(update={"environment": {**c.environment, SEED: "18"}}), "committed"),
        (lambda c: c.model_copy(update={"candidate": c.candidate.model_copy(update={"id": "0"})}), "another candidate"),
        (lambda c: c.model_copy(update={"candidate_seconds": 5e-4}), "time of candidate"),
        (lambda c: c.model_copy(update={"baseline_seconds": {**c.baseline_seconds, "eager": 9e-3}}), "time of eager"),
        (lambda c: c.model_copy(update={"baseline_seconds": {"eager": 3e-3}}), "not those with samples"),
        (lambda c: c.model_copy(update={"noise_floors": {Clock.WALL: 0.0}}), "noise floor"),
        (lambda c: c.model_copy(update={"faster": False}), "by the samples it is faster"),
        (lambda c: with_speedup(c, value=9.0), "speed-up over eager"),
        (lambda c: with_speedup(c, low=2.999), "speed-up over eager"),
        (with_faster_candidate, "time of candidate"),
        (without_speedup, "has no speed-up"),
        (lambda c: without(c, "compile again"), "noise floor"),
        (lambda c: without(c, "compile"), "not those with samples"),
        (with_error_over_limit, "over its limit"),
        (with_fraction, "roofline on small"),
    ],
)
def test_tampering_shows(certificate: Certificate, tamper: Callable[[Certificate], Certificate], words: str) -> None:
    assert certificate.check_consistency() == []
    found = tamper(certificate).check_consistency()
    assert any(words in sentence for sentence in found), found


def test_other_files_show(certificate: Certificate) -> None:
    other = Problem(name="scale", source=PROBLEM.source, overrides={"batch_size": 8})
    assert certificate.check_consistency(other) == ["the problem is not the one that was judged"]
    kernel = materialise(CANDIDATE.with_config({"N": 4}))
    assert certificate.check_consistency(kernel=kernel) == ["the kernel file is not the one that was measured"]


def test_a_win_inside_the_noise_is_not_one() -> None:
    promoted = verdict()
    assert promoted.measurement is not None
    noisy = tuple(
        s.model_copy(update={"blocks": tuple(tuple(3 * t for t in block) for block in s.blocks)})
        if s.program == "compile again"
        else s
        for s in promoted.measurement.samples
    )
    measurement = promoted.measurement.model_copy(update={"samples": noisy, "noise_floors": noise_floors(noisy)})
    found = make_certificate(PROBLEM, CANDIDATE, promoted.model_copy(update={"measurement": measurement}))
    assert not found.faster
    assert found.check_consistency() == []
