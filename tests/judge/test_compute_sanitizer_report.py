"""What compute-sanitizer writes, in the forms of its versions since CUDA 11, as a sentence and a trimmed report."""

from __future__ import annotations

import pytest

from kernelevolve.judge.compute_sanitizer_report import errors_counted, read_report, trouble_in

PROGRAM = "import torch\n@triton.jit\ndef _kernel(x):\n    tl.store(x + 9, 0)\n"

NEW = """========= COMPUTE-SANITIZER
========= Invalid __global__ write of size 4 bytes
=========     at _kernel+0x1f0 in /tmp/secret/home/candidate.py:4
=========     by thread (7,0,0) in block (3,0,0)
=========     Access to 0x7f8a01200004 is out of bounds
=========     and is 5 bytes after the nearest allocation at 0x7f8a01200000 of size 1,024 bytes
=========     Saved host backtrace up to driver entry point at kernel launch time
=========         Host Frame: [0x2774ec]
=========                in /usr/lib/x86_64-linux-gnu/libcuda.so.1
=========
========= Invalid __global__ read of size 8 bytes
=========     at later(int)+0x10
=========     by thread (0,0,0) in block (0,0,0)
=========     Address 0x7f8a01200000 is out of bounds
=========
========= ERROR SUMMARY: 2 errors
"""

OLD = """========= COMPUTE-SANITIZER
========= Invalid __global__ read of size 2 bytes
=========     at 0xd80 in /data/src/kernels.cu:162:void add_bias<(bool)1, __half>(T2 *, const int *)
=========     by thread (63,0,0) in block (506,0,0)
=========     Address 0x7fcd07a0312c is out of bounds
=========     and is 4 bytes before the nearest allocation at 0x7fcd079ffc00
=========        of size 1024 bytes
=========     Host Frame:cudaLaunchKernel [0x6c318]
=========                in /usr/local/cuda/lib64/libcudart.so.11.0
=========
========= ERROR SUMMARY: 1 error
"""

RACE = """========= COMPUTE-SANITIZER
========= Error: Race reported between Write access at block_sum(float *, int)+0x140 in sum.cu:20
=========     and Read access at block_sum(float *, int)+0xe0 in sum.cu:25 [508 hazards]
=========     and Write access at block_sum(float *, int)+0x140 in sum.cu:20 [5 hazards]
=========
========= RACECHECK SUMMARY: 1 hazard displayed (1 error, 0 warnings)
"""

BARRIER = """========= COMPUTE-SANITIZER
========= Barrier error detected. Divergent thread(s) in block.
=========     at half(float *)+0x60
=========     by thread (32,0,0) in block (0,0,0)
=========
========= ERROR SUMMARY: 1 error
"""

CLEAN = "========= COMPUTE-SANITIZER\n========= ERROR SUMMARY: 0 errors\n"
CLEAN_RACES = "========= COMPUTE-SANITIZER\n========= RACECHECK SUMMARY: 0 hazards displayed (0 errors, 0 warnings)\n"
UNTOUCHED = """========= COMPUTE-SANITIZER
========= Error: Target application terminated before first instrumented API call
========= Tracking kernels launched by child processes requires the --target-processes all option.
"""


def test_an_access_past_the_end_is_named_with_the_line_of_the_candidate() -> None:
    report = read_report(NEW, PROGRAM, {1024: ["weight gain"]})
    assert report is not None
    assert report.sentence == (
        "it writes 4 bytes of global memory past the end of a block of 1024 bytes (as long as weight gain), at byte 4 "
        "behind it, in kernel _kernel, candidate.py:4, thread (7,0,0) of block (3,0,0)"
    )
    assert report.detail.endswith("candidate.py:4: tl.store(x + 9, 0)")
    assert not any(word in report.detail for word in ("/tmp/", "Host", "libcuda", "later", "SUMMARY"))
    assert (report.kernel, report.of_memory) == ("_kernel", True)


def test_an_access_before_the_start_in_the_older_form() -> None:
    report = read_report(OLD, PROGRAM, {})
    assert report is not None
    assert report.sentence == (
        "it reads 2 bytes of global memory before the start of a block of 1024 bytes, at byte 4 in front of it, "
        "in kernel add_bias<(bool)1, __half>, kernels.cu:162, thread (63,0,0) of block (506,0,0)"
    )
    assert "/data/" not in report.detail and "libcudart" not in report.detail


@pytest.mark.parametrize(
    ("head", "offence", "words"),
    [
        ("Invalid __shared__ read of size 4 bytes", "Address 0x800 is out of bounds", "reads 4 bytes of shared memory"),
        ("Invalid __global__ atomic of size 4 bytes", "Address 0x87 is misaligned", "updates 4 bytes of global memory"),
        ("Invalid __local__ write of size 16 bytes", "Access at 0x87 is out of bounds", "that is out of bounds"),
        ("Invalid __global__ write of size 8 bytes", "Address 0x87 is misaligned", "at an address that is misaligned"),
    ],
)
def test_every_kind_of_memory_and_access(head: str, offence: str, words: str) -> None:
    log = f"========= {head}\n=========     at k(int)+0x10\n=========     {offence}\n========= ERROR SUMMARY: 1 error\n"
    report = read_report(log, PROGRAM, {})
    assert report is not None and words in report.sentence and report.kernel == "k"


def test_a_race_names_both_accesses() -> None:
    report = read_report(RACE, PROGRAM, {})
    assert report is not None
    assert report.sentence == (
        "threads of a block race for shared memory: a write in kernel block_sum, sum.cu:20 and a read in kernel "
        "block_sum, sum.cu:25"
    )
    assert (report.kernel, report.of_memory) == ("block_sum", False)


def test_a_race_whose_accesses_have_no_lines() -> None:
    log = RACE.replace(" in sum.cu:20", "").replace(" in sum.cu:25", "")
    report = read_report(log, PROGRAM, {})
    assert report is not None and "a write in kernel block_sum and a read in kernel block_sum" in report.sentence


def test_a_warning_of_a_race_is_no_finding() -> None:
    for word in ("Warning", "WARN"):
        assert read_report(RACE.replace("Error: Race", f"{word}: Race"), PROGRAM, {}) is None


def test_a_barrier_that_some_threads_miss() -> None:
    report = read_report(BARRIER, PROGRAM, {})
    assert report is not None
    assert (
        report.sentence == "threads of a block do not meet at a barrier: Divergent thread(s) in block, in kernel half"
    )
    assert not report.of_memory


@pytest.mark.parametrize("log", [CLEAN, CLEAN_RACES, UNTOUCHED, "", "Invalid __global__ write of size 4 bytes\n"])
def test_what_is_no_finding(log: str) -> None:
    assert read_report(log, PROGRAM, {}) is None


def test_only_a_summary_tells_that_a_tool_came_to_its_end() -> None:
    logs = (NEW, RACE, CLEAN, CLEAN_RACES, UNTOUCHED, "")
    assert [errors_counted(log) for log in logs] == [2, 1, 0, 0, None, None]


def test_why_a_tool_did_not_run_is_in_its_own_words() -> None:
    assert trouble_in(UNTOUCHED) == "Target application terminated before first instrumented API call"
    assert trouble_in(CLEAN) == trouble_in(RACE) == ""
