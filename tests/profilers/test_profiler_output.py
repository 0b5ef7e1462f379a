"""Readers of what tools print, on what they printed; the two pages of Nsight Compute are samples written by hand."""

from __future__ import annotations

import math
import shutil
import subprocess
from pathlib import Path

import pytest

from kernelevolve.languages.prototypes import Parameter, Prototype
from kernelevolve.profilers.inside.callgrind_output import parse_callgrind
from kernelevolve.profilers.inside.ncu_output import parse_ncu, short_name
from kernelevolve.profilers.inside.ncu_run import trouble_in
from kernelevolve.profilers.inside.recording import Argument, NativeCall
from kernelevolve.profilers.inside.remarks import last_line, parse_remarks
from kernelevolve.profilers.inside.replay import driver_source
from kernelevolve.profilers.inside.tracing import _union
from kernelevolve.profilers.perf import parse_perf

REMARKS = """\
source-1.cpp:9:11: missed:   not vectorized: control flow in loop.
source-1.cpp:9:11: missed: couldn't vectorize loop
source-1.cpp:9:11: missed: not vectorized: control flow in loop.
source-1.cpp:3:25: missed: couldn't vectorize loop
source-1.cpp:3:25: missed: not vectorized: loop nest containing two or more consecutive inner loops cannot be vectorized
source-1.cpp:6:27: optimized: loop vectorized using 32 byte vectors
source-1.cpp:6:27: optimized: loop vectorized using 16 byte vectors
source-1.cpp:5:27: note:   using an in-order (fold-left) reduction.
source-1.cpp:5:27: note:  not vectorized: estimated iteration count smaller than specified loop bound parameter.
source-1.cpp:5:27: optimized: loop vectorized using 32 byte vectors
/usr/include/c++/12/cmath:464:3: missed: couldn't vectorize loop
"""
"""Of g++ 12.2 with ``-fopt-info-vec-all-internals``, shortened."""

CALLGRIND = """\
version: 1
creator: callgrind-3.19.0
cmd:  ./replay

desc: D1 cache: 49152 B, 64 B, 12-way associative

positions: line
events: Ir Dr Dw I1mr D1mr D1mw ILmr DLmr DLmw
summary: 34280 18507 2056 8 1027 1024 8 1

ob=/usr/lib/x86_64-linux-gnu/libc.so.6
fl=./csu/../csu/libc-start.c
fn=__libc_start_main@@GLIBC_2.34
cfi=./csu/../sysdeps/nptl/libc_start_call_main.h
cfn=(below main)
calls=1 29
360 34280 18507 2056 8 1027 1024 8 1

ob=/tmp/scratch/replayed-1.so
fl=/tmp/scratch/source-1.cpp
fn=rows
2 9 0 7 1 0 0 1
5 384
4 128
5 22720 16384 0 2 1024 0 2
fi=/usr/include/c++/12/cmath
464 64
fe=/tmp/scratch/source-1.cpp
+1 10368 2048 2048 1 0 1024 1
* 8
-3 510 64 0 1 0 0 1
"""
"""Of valgrind 3.19, shortened, with relative positions put in."""

DETAILS = """\
==PROF== Connected to process 4711 (/usr/bin/python3)
==PROF== Disconnected from process 4711
"ID","Process ID","Process Name","Host Name","Kernel Name","Context","Stream","Block Size","Grid Size","Device","CC",\
"Section Name","Metric Name","Metric Unit","Metric Value","Rule Name","Rule Type","Rule Description",\
"Estimated Speedup Type","Estimated Speedup"
"0","4711","python3","127.0.0.1","void scale<256>(float *, int)","1","7","(256, 1, 1)","(1024, 1, 1)","0","9.0",\
"GPU Speed Of Light Throughput","Memory Throughput","%","82.13","","","","",""
"0","4711","python3","127.0.0.1","void scale<256>(float *, int)","1","7","(256, 1, 1)","(1024, 1, 1)","0","9.0",\
"GPU Speed Of Light Throughput","DRAM Throughput","%","82.13","","","","",""
"0","4711","python3","127.0.0.1","void scale<256>(float *, int)","1","7","(256, 1, 1)","(1024, 1, 1)","0","9.0",\
"GPU Speed Of Light Throughput","Compute (SM) Throughput","%","12.40","","","","",""
"0","4711","python3","127.0.0.1","void scale<256>(float *, int)","1","7","(256, 1, 1)","(1024, 1, 1)","0","9.0",\
"GPU Speed Of Light Throughput","Duration","ns","12,384","","","","",""
"0","4711","python3","127.0.0.1","void scale<256>(float *, int)","1","7","(256, 1, 1)","(1024, 1, 1)","0","9.0",\
"Memory Workload Analysis","Memory Throughput","byte/s","3,943,820,224.72","","","","",""
"0","4711","python3","127.0.0.1","void scale<256>(float *, int)","1","7","(256, 1, 1)","(1024, 1, 1)","0","9.0",\
"SpeedOfLight","","","","SOLBottleneck","INF","Memory is more heavily utilized than Compute.","",""
"0","4711","python3","127.0.0.1","void scale<256>(float *, int)","1","7","(256, 1, 1)","(1024, 1, 1)","0","9.0",\
"Occupancy","Block Limit Registers","block","4","","","","",""
"0","4711","python3","127.0.0.1","void scale<256>(float *, int)","1","7","(256, 1, 1)","(1024, 1, 1)","0","9.0",\
"Occupancy","Block Limit Shared Mem","block","16","","","","",""
"0","4711","python3","127.0.0.1","void scale<256>(float *, int)","1","7","(256, 1, 1)","(1024, 1, 1)","0","9.0",\
"Occupancy","Achieved Occupancy","%","37.50","","","","",""
"0","4711","python3","127.0.0.1","void scale<256>(float *, int)","1","7","(256, 1, 1)","(1024, 1, 1)","0","9.0",\
"Launch Statistics","Registers Per Thread","register/thread","56","","","","",""
"0","4711","python3","127.0.0.1","void scale<256>(float *, int)","1","7","(256, 1, 1)","(1024, 1, 1)","0","9.0",\
"Occupancy","","","","AchievedOccupancy","OPT","Occupancy is limited by registers, which
costs time.","global","17.87"
"""
RAW = """\
"ID","Process ID","Process Name","Host Name","Kernel Name","Context","Stream","Block Size","Grid Size","Device","CC",\
"dram__bytes_read.sum","dram__bytes_write.sum","smsp__average_warp_latency_per_inst_issued.ratio",\
"smsp__average_warps_issue_stalled_long_scoreboard_per_issue_active.ratio",\
"smsp__average_warps_issue_stalled_selected_per_issue_active.ratio","smsp__cycles_active.avg"
"","","","","","","","","","","","byte","byte","inst","inst","inst","cycle"
"0","4711","python3","127.0.0.1","void scale<256>(float *, int)","1","7","(256, 1, 1)","(1024, 1, 1)","0","9.0",\
"4,194,304","2,097,152","20.5","12.25","1","inf"
"""
"""Written after the layout of ncu 2025.x; no recording of it."""


def test_remarks_say_of_each_loop_what_became_of_it() -> None:
    loops = {loop.line: loop for loop in parse_remarks(REMARKS, "source-1.cpp")}
    assert set(loops) == {5, 6, 9}  # neither the loop round others nor the header's
    assert (loops[6].vector_bytes, loops[6].in_order, loops[6].reason) == (32, False, "")
    assert (loops[5].vector_bytes, loops[5].in_order) == (32, True)
    assert (loops[9].vector_bytes, loops[9].reason) == (0, "control flow in loop.")


def test_the_compiler_of_this_machine_is_understood(tmp_path: Path) -> None:
    compiler = shutil.which("g++")
    if compiler is None:
        pytest.skip("there is no g++")
    source = "void f(float* y, const float* x) {\n  for (int i = 0; i < 4096; i++) y[i] = x[i] * 2;\n}\n"
    source += "float g(const float* x) {\n  float s = 0;\n  for (int i = 0; i < 4096; i++) s += x[i];\n  return s;\n}\n"
    (tmp_path / "source-1.cpp").write_text(source)
    command = [compiler, "-O3", "-fopt-info-vec-all-internals", "-S", "source-1.cpp", "-o", "/dev/null"]
    log = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=True).stderr
    loops = {loop.line: loop for loop in parse_remarks(log, "source-1.cpp")}
    assert loops[2].vector_bytes >= 16
    assert not loops[2].in_order
    assert loops[6].in_order or not loops[6].vector_bytes


def test_the_end_of_a_loop_is_found_by_its_brackets() -> None:
    source = "for (;;) {\n  if (x) { y(); }\n}\nfor (int i = 0;\n     i < n; i++) z(i);\nz();\n"
    assert last_line(source, 1) == 3
    assert last_line(source, 4) == 5
    assert last_line(source, 6) == 6


def test_callgrind_counts_where_the_instructions_are() -> None:
    counts = parse_callgrind(CALLGRIND)
    assert counts.totals["Ir"] == 9 + 384 + 128 + 22720 + 64 + 10368 + 8 + 510  # what a callee does counts once
    assert counts.totals["D1mr"] == 1024
    assert counts.lines["source-1.cpp", 5]["Ir"] == 384 + 22720
    assert counts.lines["cmath", 464]["Ir"] == 64
    assert counts.lines["source-1.cpp", 465]["Ir"] == 10368 + 8
    assert counts.lines["source-1.cpp", 462]["Ir"] == 510
    assert counts.functions["replayed-1.so", "rows"]["Ir"] == counts.totals["Ir"]
    assert counts.files["replayed-1.so", "cmath"]["Ir"] == 64


@pytest.mark.parametrize("text", ["", "nothing of the kind", "events: Ir\nfn=f\n12 3 4 5\n"])
def test_callgrind_output_of_another_shape_does_not_break_the_reader(text: str) -> None:
    parse_callgrind(text)


def test_perf_leaves_out_what_it_could_not_count() -> None:
    text = (
        "Events disabled\n<not supported>,,cycles,0,100.00,,\n<not supported>,,instructions,0,100.00,,\n"
        "998.02,msec,task-clock,998020962,100.00,0.997,CPUs utilized\n590,,context-switches:u,998001462,100.00,591.1,/sec\n"
    )
    assert parse_perf(text) == {"task-clock": 998.02, "context-switches": 590.0}


def test_ncu_pages_become_one_record_a_launch() -> None:
    (kernel,) = parse_ncu(DETAILS, RAW)
    assert kernel.name == "scale<256>"
    assert kernel.seconds == pytest.approx(12.384e-6)
    assert kernel.shares == {
        "memory_throughput": pytest.approx(0.8213), "dram_throughput": pytest.approx(0.8213),
        "sm_throughput": pytest.approx(0.124), "achieved_occupancy": pytest.approx(0.375),
    }  # fmt: skip
    assert kernel.limits == {"registers": 4, "shared mem": 16}
    assert kernel.registers == 56
    assert kernel.dram_bytes == 4194304 + 2097152
    assert kernel.stalls == {"long_scoreboard": 12.25}
    assert kernel.latency == 20.5
    ((rule, text, speedup),) = [(r.name, r.text, r.speedup) for r in kernel.rules]
    assert (rule, speedup) == ("AchievedOccupancy", 17.87)
    assert text == "Occupancy is limited by registers, which costs time."


@pytest.mark.parametrize(("details", "raw"), [("", ""), ("==ERROR== x", "==ERROR== x"), (DETAILS.splitlines()[2], RAW)])
def test_ncu_pages_without_a_launch_give_none(details: str, raw: str) -> None:
    assert parse_ncu(details, raw) == []


def test_ncu_without_a_report_says_why() -> None:
    said = "==PROF== Connected\n==ERROR== ERR_NVGPUCTRPERM - The user does not have permission to access GPU counters"
    assert "administrators" in trouble_in(said)
    assert trouble_in("==PROF== Connected\n==ERROR== Failed to open /tmp\n") == "Failed to open /tmp"
    assert trouble_in("==WARNING== No kernels were profiled.\n") == "==WARNING== No kernels were profiled."
    assert trouble_in("") != ""


def test_kernel_names_are_cut_before_their_arguments() -> None:
    assert short_name("void at::native::reduce<512, 1>(at::native::Op<float>)") == "at::native::reduce<512, 1>"
    assert short_name("triton_kernel") == "triton_kernel"


def test_a_replay_passes_every_kind_of_argument() -> None:
    pointer, integer, number = Parameter("x", "f32", 1), Parameter("n", "i64"), Parameter("e", "f32")
    arguments = (
        Argument(pointer, None, "a.bin", 16), Argument(pointer, None, "a.bin"), Argument(pointer, None),
        Argument(integer, -(1 << 63)), Argument(number, 0.1), Argument(number, -math.inf), Argument(number, math.nan),
    )  # fmt: skip
    prototype = Prototype("f", Parameter("", "void"), tuple(a.parameter for a in arguments))
    text = driver_source([NativeCall(0, prototype, arguments)])
    assert text.count("load(") == 2  # its definition, and one block that two arguments share
    assert "m0 + 16, m0 + 0, nullptr, static_cast<int64_t>(9223372036854775808ull)" in text
    assert f"{(0.1).hex()}, -__builtin_inf()" in text
    assert 'find("./replayed-1.so", "f")' in text


def test_the_device_is_busy_where_some_kernel_runs() -> None:
    assert _union([(0.0, 2.0), (1.0, 3.0), (5.0, 6.0), (5.2, 5.5)]) == 4.0
    assert _union([]) == 0.0
