"""Accesses to memory that is not a candidate's: red zones with every output that is compared, sanitizers at promotion."""

from __future__ import annotations

from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from judging import HEAD, quick_judge

from kernelevolve.candidates import Candidate
from kernelevolve.judge import memory_check
from kernelevolve.judge.gpu_sanitizer import Sanitized
from kernelevolve.judge.local import LocalJudge
from kernelevolve.judge.memory_check import NOT_EXAMINED, MemoryCheck, examine
from kernelevolve.judge.red_zones import RED_ZONE, RedZones, layout_with_zones
from kernelevolve.judge.rejection import Rejected
from kernelevolve.judge.sanitizer_report import read_report
from kernelevolve.judge.selftest import corpus
from kernelevolve.judge.settings import TimingPlan
from kernelevolve.judge.static import check_text
from kernelevolve.judge.verdict import Effort, Stage, Verdict, VerdictKind
from kernelevolve.languages import cpp
from kernelevolve.languages.toolchain import compute_sanitizer, sanitizer

needs_sanitizer = pytest.mark.skipif(
    cpp.compiler() is None or sanitizer.runtime(cpp.compiler() or "") is None, reason="there is no g++ with libasan"
)

# -- red zones ---------------------------------------------------------------------------------------------------------


def zones_of(*inputs: object) -> tuple[torch.Tensor, tuple[object, ...], RedZones]:
    layout = layout_with_zones()
    slots = layout.place_all(inputs)
    memory = torch.zeros(layout.bytes, dtype=torch.uint8)
    return memory, slots, RedZones(memory, slots, layout.bytes)


def test_every_byte_that_belongs_to_no_tensor_is_guarded() -> None:
    memory, slots, zones = zones_of(torch.zeros(3), {"mask": torch.zeros(5, 7, dtype=torch.bool)}, 4, torch.zeros(0))
    first, second = slots[0], slots[1]["mask"]  # type: ignore[index,call-overload]
    inside = {b for slot in (first, second) for b in range(slot.offset, slot.offset + slot.extent)}
    assert first.offset >= RED_ZONE and memory.numel() - (second.offset + second.extent) >= RED_ZONE
    for byte in inside:
        memory[byte] ^= 255
    assert zones.broken() is None
    for byte in sorted(set(range(memory.numel())) - inside):
        memory[byte] ^= 255
        assert zones.broken() is not None, byte
        memory[byte] ^= 255
    assert zones.broken() is None


def test_what_is_broken_is_named() -> None:
    memory, slots, zones = zones_of(torch.zeros(3), torch.zeros(4))
    memory[slots[0].offset + 12] ^= 255  # type: ignore[attr-defined]
    assert zones.broken() == "past the end of input 0, at byte 0 behind it"
    memory[slots[0].offset + 12] ^= 255  # type: ignore[attr-defined]
    memory[slots[1].offset - 4] ^= 255  # type: ignore[attr-defined]
    assert zones.broken() == "before the start of input 1, at byte 4 in front of it"


def test_the_pattern_is_secret() -> None:
    assert not torch.equal(zones_of(torch.zeros(1))[0], zones_of(torch.zeros(1))[0])


# -- reports -----------------------------------------------------------------------------------------------------------

OLD_WORDS = """chatter
==2==ERROR: AddressSanitizer: heap-buffer-overflow on address 0x61d at pc 0x7f3 bp 0x7ff sp 0x7ff
WRITE of size 64 at 0x61d00008be80 thread T1
    #0 0x7f3e10720439 in inner /tmp/a/b/.building-x/kernel.cpp:3
    #1 0x7f3e10720439 in _PyObject_Call Objects/call.c:343

0x61d00008be80 is located 12 bytes to the right of 2048-byte region [0x61d00008b680,0x61d00008be80)
allocated by thread T0 here:
    #0 0x7f3 in posix_memalign ../libsanitizer/asan_malloc_linux.cpp:226
SUMMARY: AddressSanitizer: heap-buffer-overflow
Shadow bytes around the buggy address:
"""


def test_a_report_becomes_one_sentence() -> None:
    program = "K = build('''\nextern \"C\" void f() {\n  x[i] = 0;\n}\n''')\n"
    for words in (OLD_WORDS, OLD_WORDS.replace("to the right of", "after")):
        report = read_report(words, program, {2048: ["weight gain"], 8: ["input 0"]})
        assert report.sentence == (
            "it writes 64 bytes 12 bytes past the end of a block of 2048 bytes (as long as weight gain): "
            "heap-buffer-overflow, at kernel.cpp:3 in inner"
        )
        assert report.detail.endswith("kernel.cpp:3: x[i] = 0;")
        assert "Py" not in report.detail and "/tmp/" not in report.detail and "Shadow" not in report.detail


def test_a_report_of_what_is_undefined() -> None:
    words = "noise\nkernel.cpp:4:20: runtime error: signed integer overflow: 2 * 3 cannot be represented\n    #0 0x1 in f x\n"
    sentence = read_report(words, "", {}).sentence
    assert sentence == (
        "its C++ does what is undefined: signed integer overflow: 2 * 3 cannot be represented, at kernel.cpp:4"
    )
    assert "lost" in read_report("only chatter", "", {}).sentence


# -- the judge ---------------------------------------------------------------------------------------------------------

SHORT = TimingPlan(blocks=20, min_blocks=20, calls=1, seconds=0.2)


@pytest.fixture(scope="module")
def judge(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalJudge]:
    judge = quick_judge(tmp_path_factory.mktemp("judge"), compile_seconds=20.0, promotion=SHORT)
    yield judge
    judge.close()


def kernel(body: str) -> Candidate:
    source = f'''
import torch
from kernelevolve.languages import cpp
KERNEL = cpp.build(r"""
#include <cstdint>
#include <cstdio>
#include <unistd.h>
#include <vector>
extern "C" void scale(float* x, const float* w, float* y, int64_t n, int64_t columns) {{
    #pragma omp parallel for
    for (int64_t i = 0; i < n; ++i) {{ float p = x[i] * w[i % columns]; y[i] = (p > 0 ? p : 0) + x[i]; }}
    {body}
}}
""")
{HEAD}
        x = x.contiguous()
        y = torch.empty_like(x)
        KERNEL.scale(x, self.weight, y, x.numel(), x.shape[1])
        return y
'''
    return Candidate(source=source, language="cpp")


def test_a_write_beside_an_input_is_wrong_on_every_device(judge: LocalJudge) -> None:
    verdict = judge.evaluate(kernel("x[n + 3] = 0;"))
    assert (verdict.kind, verdict.stage) == (VerdictKind.WRONG, Stage.INTEGRITY), verdict
    assert "the call writes past the end of input 0, at byte 12 behind it" in verdict.reason


def examined(judge: LocalJudge, candidate: Candidate) -> MemoryCheck:
    """What a promotion does beside calling and timing."""
    return examine(judge._bench, check_text(candidate), judge._bench.fresh_book())


@needs_sanitizer
@pytest.mark.parametrize(
    ("body", "words"),
    [
        ("if (w[columns + 1] > 3e38f) y[0] += 1;", "it reads 4 bytes 4 bytes past the end of a block of 1024 bytes"),
        ("if (x[-1] > 3e38f) y[0] += 1;", "it reads 4 bytes 4 bytes before the start of a block of"),
        ("if (x[n] > 3e38f) y[0] += 1;", "past the end of a block of 65536 bytes (as long as input 0)"),
        ("y[n] = 1;", "it writes 4 bytes past the end of a block of 65536 bytes"),
        ("int32_t big = 2147480000 + (int32_t)n; if (big == 7) y[0] = 1;", "signed integer overflow"),
        ('for (int i = 0; i < 5000; ++i) std::printf("much to say, before"); y[n] = 1;', "lost"),
    ],
    ids=["weight", "before an input", "input", "output", "overflow", "much printed before"],
)
def test_what_only_a_sanitizer_sees_is_wrong(judge: LocalJudge, body: str, words: str) -> None:
    with pytest.raises(Rejected) as rejected:
        examined(judge, kernel(body))
    assert (rejected.value.kind, rejected.value.stage) == (VerdictKind.WRONG, Stage.INTEGRITY)
    assert words in rejected.value.reason


def environment_of(verdict: Verdict) -> str:
    assert verdict.correct and verdict.measurement is not None, verdict
    return verdict.measurement.environment["memory_check"]


@needs_sanitizer
def test_an_honest_kernel_is_watched_when_it_is_promoted(judge: LocalJudge) -> None:
    verdict = judge.evaluate(kernel(""), Effort.PROMOTION)
    assert environment_of(verdict).startswith("AddressSanitizer") and verdict.notes == ()


@needs_sanitizer
def test_inputs_that_are_written_to_and_strided_inputs_are_no_trouble(judge: LocalJudge) -> None:
    found = examined(judge, kernel("x[n - 1] = 1; std::vector<float> v(columns); v[columns - 1] = x[0]; y[0] = v[0];"))
    assert found.notes == () and "workloads" in found.summary


def test_a_program_without_own_code_is_not_watched_and_says_so(judge: LocalJudge) -> None:
    found = examined(judge, Candidate(source=HEAD + "        return self.right(x)\n", language="pytorch"))
    assert found.summary == "nothing to watch"
    assert "builds no C++" in found.notes[0]


@needs_sanitizer
def test_the_walls_stand_in_a_watched_worker(judge: LocalJudge) -> None:
    (plain, place), (watched, other) = judge._bench.workers.open_candidate(), judge._bench.workers.open_watched()
    for session in (plain, watched):
        session.close()
    for path in (place, other):
        judge._bench.workers.clean(path)
    assert watched.handle.isolation == plain.handle.isolation


@needs_sanitizer
def test_a_kernel_that_takes_too_long_or_fails_under_a_sanitizer_is_noted_only(judge: LocalJudge) -> None:
    bench = judge._bench
    was = bench.settings
    bench.settings = was.model_copy(update={"memory_check_seconds": 0.6})
    try:
        for body, words in (("sleep(30);", "no answer within 0.6 s"), ("_exit(3);", "exit code 3")):
            found = examined(judge, kernel(f"\n#ifdef __SANITIZE_ADDRESS__\n{body}\n#endif\n"))
            assert "its call on workload as-written did not end well" in found.notes[0] and words in found.notes[0]
            assert found.summary.endswith("0 workloads")
    finally:
        bench.settings = was


def test_it_can_be_left_out(judge: LocalJudge) -> None:
    bench = judge._bench
    was = bench.settings
    bench.settings = was.model_copy(update={"memory_check_seconds": 0.0})
    try:
        assert examined(judge, kernel("y[n] = 1;")) is NOT_EXAMINED
    finally:
        bench.settings = was


def test_on_a_gpu_both_ways_to_watch_are_told_together(monkeypatch: pytest.MonkeyPatch) -> None:
    bench: Any = SimpleNamespace(
        settings=SimpleNamespace(memory_check_seconds=1.0), target=SimpleNamespace(device_type="cuda")
    )
    guarded, tools = MemoryCheck("guarded; 4 workloads", ("a",)), Sanitized(["memcheck"], ["b"])
    monkeypatch.setattr(memory_check, "_watched_calls", lambda *_: guarded)
    monkeypatch.setattr(memory_check, "sanitize", lambda *_: tools)
    book: Any = None
    both = MemoryCheck("guarded; 4 workloads; compute-sanitizer (memcheck)", ("a", "b"))
    assert examine(bench, "", book) == both
    guarded, tools = MemoryCheck("none", ("a",)), Sanitized([], ["b"])
    assert examine(bench, "", book) == MemoryCheck("none", ("a", "b"))
    bench.target.device_type = "cpu"
    assert examine(bench, "from kernelevolve.languages import cpp", book) is guarded


# -- on a GPU ----------------------------------------------------------------------------------------------------------


@pytest.mark.nvidia
@pytest.mark.slow
@pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no NVIDIA GPU")
@pytest.mark.parametrize("name", ["triton_gain", "cuda_gain"])
def test_good_kernels_pass_in_guarded_memory(gpu_judge: LocalJudge, name: str) -> None:
    (case,) = (case for case in corpus.good_kernels() if case.name == name)
    verdict = gpu_judge.evaluate(corpus.candidate(case), Effort.PROMOTION)
    watched = "every allocation between addresses that are not mapped; 4 workloads"
    if compute_sanitizer.program() is None:
        assert environment_of(verdict) == watched
        assert [note for note in verdict.notes if note.startswith("memory:")][1:] == []
    else:
        assert environment_of(verdict) == f"{watched}; compute-sanitizer (memcheck, racecheck, synccheck)"
        assert not any(note.startswith("memory:") for note in verdict.notes)


@pytest.mark.nvidia
@pytest.mark.slow
@pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no NVIDIA GPU")
@pytest.mark.parametrize("name", ["056_triton_out_of_bounds_read", "056_triton_out_of_bounds_write"])
def test_what_is_out_of_bounds_is_wrong_on_a_gpu(gpu_judge: LocalJudge, name: str) -> None:
    (case,) = (case for case in corpus.exploits() if case.name == name)
    verdict = gpu_judge.evaluate(corpus.candidate(case), Effort.PROMOTION)
    assert verdict.kind is VerdictKind.WRONG, verdict
    # A write may be seen already by what lies between the inputs.
    assert "belongs to no tensor" in verdict.reason or "the start of input" in verdict.reason, verdict.reason
