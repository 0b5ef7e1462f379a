"""Which bottleneck follows from which facts, what is suggested, and that a verdict alone gives a diagnosis."""

from __future__ import annotations

import pytest

from kernelevolve.judge.diagnosis import diagnose, diagnose_facts
from kernelevolve.judge.verdict import Clock, Effort, Measurement, Roofline, Samples, Stage, Verdict, VerdictKind
from kernelevolve.profilers import Bottleneck, Diagnosis, Evidence, Metric, Place
from kernelevolve.profilers.naming import BUSY, LAUNCHES, NEAR, Facts


def facts(
    wall: float | None = 1e-3, device: float | None = None, floor: float | None = 1e-4, bound: str = "memory",
    launch: float | None = 5e-6, size: float = 1e6, threads: int = 1, around: float | None = None,
) -> Facts:  # fmt: skip
    return Facts("candidate", "w", wall, device, around, floor, bound, size, launch, threads)


def item(metric: Metric, value: float, subject: str = "", detail: str = "", profiler: str = "ncu") -> Evidence:
    return Evidence(profiler=profiler, metric=metric, value=value, subject=subject, detail=detail)


def kernel(memory: float, arithmetic: float, occupancy: float = 0.9) -> list[Evidence]:
    return [
        item(Metric.KERNEL_SECONDS, 1e-3, "k"),
        item(Metric.MEMORY_THROUGHPUT, memory, "k"),
        item(Metric.SM_THROUGHPUT, arithmetic, "k"),
        item(Metric.ACHIEVED_OCCUPANCY, occupancy, "k"),
    ]


CASES: dict[str, tuple[Facts, list[Evidence], Bottleneck]] = {
    "the device waits": (facts(1e-3, (BUSY - 0.01) * 1e-3), [], Bottleneck.LAUNCH),
    "as much around the work as for a baseline": (facts(2e-4, 7e-5, around=1.2e-4, floor=3e-5), [], Bottleneck.UNKNOWN),
    "more around the work": (facts(8e-4, 2e-4, around=1.2e-4, floor=3e-5), [], Bottleneck.LAUNCH),
    "less around the work": (facts(1e-4, 7e-5, around=1.2e-4, floor=3e-5), [], Bottleneck.UNKNOWN),
    "the device works": (facts(1e-3, (BUSY + 0.01) * 1e-3), kernel(0.9, 0.1), Bottleneck.MEMORY),
    "the profiler sees it wait": (facts(), [item(Metric.DEVICE_BUSY_SHARE, 0.2)], Bottleneck.LAUNCH),
    "time in Python": (facts(), [item(Metric.HOST_SHARE, 0.8)], Bottleneck.LAUNCH),
    "short as an empty call": (facts(LAUNCHES * 5e-6, floor=1e-6, bound="launch"), [], Bottleneck.LAUNCH),
    "tiny work that takes long": (facts(1e-3, floor=1e-6, bound="launch"), [], Bottleneck.UNKNOWN),
    "near the memory's ceiling": (facts(1e-3, floor=NEAR * 1e-3), [], Bottleneck.MEMORY),
    "near the arithmetic's": (facts(1e-3, floor=0.9e-3, bound="compute"), [], Bottleneck.COMPUTE),
    "far, memory busy": (facts(), kernel(0.8, 0.3), Bottleneck.MEMORY),
    "far, arithmetic busy": (facts(), kernel(0.3, 0.7), Bottleneck.COMPUTE),
    "far, both idle": (facts(), kernel(0.3, 0.2, 0.1), Bottleneck.LATENCY),
    "many instructions a cycle": (facts(), [item(Metric.INSTRUCTIONS_PER_CYCLE, 2.5)], Bottleneck.COMPUTE),
    "few of them": (facts(), [item(Metric.INSTRUCTIONS_PER_CYCLE, 0.3)], Bottleneck.LATENCY),
    "few of them and much traffic": (
        facts(),
        [item(Metric.INSTRUCTIONS_PER_CYCLE, 0.3), item(Metric.LAST_LEVEL_MISS_BYTES, 8e6)],
        Bottleneck.MEMORY,
    ),
    "operations that move data": (
        facts(),
        [item(Metric.OPERATIONS, 4), item(Metric.OPERATION_SHARE, 0.9, "aten::mul", "operation, 4 a call")],
        Bottleneck.MEMORY,
    ),
    "operations that only launch": (
        facts(1e-3, 0.9e-3),
        [item(Metric.OPERATIONS, 4), item(Metric.OPERATION_SHARE, 0.9, "aten::mul", "operation, 4 a call")],
        Bottleneck.UNKNOWN,
    ),
    "operations that are short": (
        facts(2e-5, floor=1e-6),
        [item(Metric.OPERATIONS, 4), item(Metric.OPERATION_SHARE, 0.9, "aten::mul", "operation, 4 a call")],
        Bottleneck.LAUNCH,
    ),
    "one operation of the library": (
        facts(),
        [item(Metric.OPERATIONS, 1), item(Metric.OPERATION_SHARE, 0.9, "aten::sort", "operation, 1 a call")],
        Bottleneck.UNKNOWN,
    ),
    "instructions without end": (facts(), [item(Metric.INSTRUCTIONS, 4e6)], Bottleneck.COMPUTE),
    "few instructions for the time": (facts(threads=4), [item(Metric.INSTRUCTIONS, 4e6)], Bottleneck.LATENCY),
    "counted what is not the time": (
        facts(),
        [item(Metric.INSTRUCTIONS, 4e6), item(Metric.OPERATION_SHARE, 0.1, "f", "native function, 1 a call")],
        Bottleneck.UNKNOWN,
    ),
    "nothing known": (facts(None, floor=None), [], Bottleneck.UNKNOWN),
}


@pytest.mark.parametrize("name", CASES)
def test_the_bottleneck_follows_from_the_evidence(name: str) -> None:
    known, evidence, expected = CASES[name]
    found = diagnose_facts(known, evidence)
    assert found.bottleneck is expected
    assert found.summary.startswith(f"{expected}: ")


def advice(found: Diagnosis) -> str:
    return "\n".join(s.text for s in found.suggestions)


def test_a_loop_that_matters_is_named_with_its_reason_and_one_that_does_not_is_left_out() -> None:
    hot, cold = Place(file="source 1", line=3, last=6), Place(file="source 1", line=9, last=9)
    evidence = [
        Evidence(
            profiler="vectorisation", metric=Metric.LOOP_NOT_VECTORISED, value=0, detail="control flow", place=place
        )
        for place in (cold, hot)
    ]
    for line, share in ((4, 0.7), (9, 0.02)):
        place = Place(file="source 1", line=line)
        evidence.append(Evidence(profiler="callgrind", metric=Metric.INSTRUCTION_SHARE, value=share, place=place))
    found = diagnose_facts(facts(), evidence)
    assert "source 1:3 (70 % of the instructions) is not vectorised: control flow" in advice(found)
    assert "source 1:9" not in advice(found)
    assert all(s.evidence for s in found.suggestions)


@pytest.mark.parametrize(
    ("evidence", "words"),
    [
        ([item(Metric.SPILL_BYTES, 64, "k")], "k spills 64 bytes a thread"),
        ([item(Metric.SPILL_BYTES, 0, "k")], ""),
        ([item(Metric.KERNEL_LAUNCHES, 7)], "7 launches a call"),
        ([item(Metric.PAGE_FAULTS, 4096)], "keep a buffer"),
        ([item(Metric.DRAM_BYTES, 3e6, "k")], "move 3× the unavoidable bytes"),
        ([item(Metric.DRAM_BYTES, 1.1e6, "k")], ""),
        ([item(Metric.STALL_SHARE, 0.6, "k", "long_scoreboard")], "k mostly waits for global memory"),
        (
            [item(Metric.ACHIEVED_OCCUPANCY, 0.2, "k"), item(Metric.OCCUPANCY_LIMIT, 1, "k", "registers")],
            "registers allow 1 blocks",
        ),
        ([item(Metric.INSTRUCTION_SHARE, 0.6, "expf", "6 instructions, in libm.so.6")], "ke_math.h"),
        ([item(Metric.RULE, 30, "k", "Uncoalesced accesses.")], "k: Uncoalesced accesses."),
    ],
)
def test_a_fact_becomes_something_to_do(evidence: list[Evidence], words: str) -> None:
    found = advice(diagnose_facts(facts(), evidence))
    assert words in found if words else not found


def test_what_is_about_the_bottleneck_comes_first() -> None:
    evidence = [*kernel(0.9, 0.1), item(Metric.SPILL_BYTES, 64, "k"), item(Metric.DRAM_BYTES, 5e6, "k")]
    first, *_ = diagnose_facts(facts(), evidence).suggestions
    assert "unavoidable bytes" in first.text


def verdict(kind: VerdictKind = VerdictKind.CORRECT, device: bool = True) -> Verdict:
    def samples(workload: str, clock: Clock, seconds: float) -> Samples:
        return Samples(program="candidate", workload=workload, clock=clock, method="", blocks=((seconds,),))

    taken = [samples("small", Clock.WALL, 5e-5), samples("large", Clock.WALL, 1e-3)]
    taken += [samples("small", Clock.DEVICE, 1e-5), samples("large", Clock.DEVICE, 0.9e-3)] if device else []
    return Verdict(
        candidate_id="c", kind=kind, stage=Stage.TIMING, effort=Effort.SCREEN,
        measurement=Measurement(samples=tuple(taken), environment={"threads": "2"}),
        rooflines=tuple(
            Roofline(workload=name, bytes=1e6, flops=0, floor_seconds=floor, bound="memory")
            for name, floor in (("small", 5e-6), ("large", 0.8e-3))
        ),
    )  # fmt: skip


def test_a_verdict_alone_gives_a_diagnosis_of_its_slowest_workload() -> None:
    found = diagnose(verdict())
    assert (found.workload, found.bottleneck) == ("large", Bottleneck.MEMORY)
    assert found.distance.clock == "device"
    assert found.distance.fraction == pytest.approx(0.8 / 0.9)
    assert found.ran == ()
    assert diagnose(verdict(), workload="small").bottleneck is Bottleneck.LAUNCH
    assert diagnose(verdict(device=False)).distance.clock == "wall"


def test_what_baselines_take_around_their_work_is_no_fault_of_the_kernel() -> None:
    given = verdict()
    assert given.measurement is not None
    others = [("eager", 4e-5, 1e-5), ("compile", 9e-5, 1.5e-5)]
    samples = [
        Samples(program=name, workload="small", clock=clock, method="", blocks=((seconds,),))
        for name, wall, device in others
        for clock, seconds in ((Clock.WALL, wall), (Clock.DEVICE, device))
    ]
    measurement = given.measurement.model_copy(update={"samples": (*given.measurement.samples, *samples)})
    found = diagnose(given.model_copy(update={"measurement": measurement}), workload="small")
    # 50 us a call, of which the device works 10; eager takes 30 us around its work as well.
    (share,) = (item.value for item in found.evidence if item.metric is Metric.DEVICE_SHARE)
    assert share == pytest.approx(10 / 20)
    assert found.bottleneck is not Bottleneck.LAUNCH


def test_a_verdict_that_measured_nothing_has_a_diagnosis_too() -> None:
    bare = Verdict(candidate_id="c", kind=VerdictKind.BUILD_ERROR, stage=Stage.BUILD, effort=Effort.SCREEN)
    found = diagnose(bare, missing={"ncu": "it was not asked"})
    assert found.bottleneck is Bottleneck.UNKNOWN
    assert found.summary == "unknown: it was neither timed nor profiled"
    assert found.missing == {"ncu": "it was not asked"}


def test_a_diagnosis_survives_json() -> None:
    found = diagnose_facts(facts(), kernel(0.9, 0.1))
    assert Diagnosis.model_validate_json(found.model_dump_json()) == found
    assert [e.value for e in found.about(Metric.SM_THROUGHPUT)] == [0.1]
