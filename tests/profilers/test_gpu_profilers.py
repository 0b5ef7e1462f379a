"""The profilers of GPUs as far as they can be tried without one: a stand-in for ncu, and ptxas on a file."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from kernelevolve.languages.toolchain import cuda_toolkit
from kernelevolve.profilers import Metric, ncu
from kernelevolve.profilers.inside.ncu_run import count
from kernelevolve.profilers.inside.resources import of_ptx
from kernelevolve.profilers.inside.tracing import DeviceType, summarise
from kernelevolve.profilers.profiler import BINDING, WEIGHTS, Probe, ProfilerFailed
from kernelevolve.workers.isolation import Capability
from profilers.test_profiler_output import DETAILS, RAW

STAND_IN = """#!/bin/sh
case "$*" in
  *--import*raw*) cat {place}/raw.csv ;;
  *--import*) cat {place}/details.csv ;;
  *) echo "$@" > {place}/command; {act} ;;
esac
"""
SILENT = "echo '==ERROR== The application returned an error code (1).'"


class Subject:
    """A worker without walls: probes run here."""

    source = "import torch\n"
    training = False
    call_seconds, call_limit = 1e-3, 1.0

    def __init__(self, place: Path) -> None:
        self.place = place
        self.capabilities: tuple[Capability, ...] = ()

    @contextmanager
    def start(
        self, *, before: Probe | None = None, load: bool = True, capabilities: tuple[Capability, ...] = ()
    ) -> Iterator[Any]:
        assert not load  # The tool's own child is the first process that sees the candidate.
        self.capabilities = capabilities
        held = {BINDING: (torch.ones(3),), WEIGHTS: ((3,), {"w": torch.ones(2)}, ("w",))}
        site = SimpleNamespace(scratch=self.place, bindings=held)
        yield SimpleNamespace(inspect=lambda probe, timeout, **arguments: probe(site, **arguments))


def stand_in(place: Path, act: str) -> Path:
    program = place / "ncu"
    program.write_text(STAND_IN.format(place=place, act=act))
    program.chmod(0o755)
    (place / "details.csv").write_text(DETAILS)
    (place / "raw.csv").write_text(RAW)
    return program


def test_counters_become_evidence_of_the_kernel(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program = stand_in(tmp_path, f"touch {tmp_path}/profiled.ncu-rep")
    monkeypatch.setattr(ncu, "_program", lambda: program)
    subject = Subject(tmp_path)
    evidence = ncu.PROFILER.profile(subject).evidence
    found = {item.metric: item for item in evidence}
    assert subject.capabilities == (Capability.SYS_ADMIN,)
    assert {item.subject for item in evidence} == {"scale<256>"}
    assert found[Metric.MEMORY_THROUGHPUT].value == pytest.approx(0.8213)
    assert (found[Metric.OCCUPANCY_LIMIT].value, found[Metric.OCCUPANCY_LIMIT].detail) == (4, "registers")
    assert found[Metric.DRAM_BYTES].value == 6291456
    assert (found[Metric.STALL_SHARE].detail, found[Metric.STALL_SHARE].value) == (
        "long_scoreboard", pytest.approx(12.25 / 20.5),
    )  # fmt: skip
    assert found[Metric.RULE].value == 17.87
    command = (tmp_path / "command").read_text()
    assert "--clock-control none" in command
    assert "--profile-from-start off" in command
    data = torch.load(tmp_path / "profiled.pt", weights_only=False)
    assert data["parameters"] == ("w",)
    assert torch.equal(data["inputs"][0], torch.ones(3))


def test_a_tool_that_leaves_no_report_says_why(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program = stand_in(tmp_path, SILENT)
    monkeypatch.setattr(ncu, "_program", lambda: program)
    with pytest.raises(ProfilerFailed, match="returned an error code"):
        ncu.PROFILER.profile(Subject(tmp_path))


def test_a_tool_that_hangs_is_ended(tmp_path: Path) -> None:
    program = stand_in(tmp_path, "exec sleep 30")
    with Subject(tmp_path).start(load=False) as running:
        answer = running.inspect(
            count, timeout=1.0, ncu=str(program), source="", training=False, seconds=0.2
        )  # fmt: skip
    assert answer == {"trouble": "it did not end within 0.2 s"}


def test_ptx_is_assembled_once_more_for_its_registers(tmp_path: Path) -> None:
    if cuda_toolkit.ptxas() is None:
        pytest.skip("there is no ptxas")
    text = tmp_path / "kernel.ptx"
    text.write_text(
        ".version 7.0\n.target sm_80\n.address_size 64\n.visible .entry nothing(.param .u64 p)\n"
        "{\n.shared .align 4 .b8 held[512];\nret;\n}\n"
    )
    (kernel,) = of_ptx(text)
    assert (kernel.kernel, kernel.arch) == ("nothing", "sm_80")
    assert kernel.registers > 0
    text.write_text("no assembly at all")
    assert of_ptx(text) == []
    text.write_text(".target sm_80\nnonsense\n")
    assert of_ptx(text) == []


def test_a_trace_of_a_gpu_counts_its_kernels_and_not_the_marks_round_them() -> None:
    def event(name: str, start: float, end: float, device: DeviceType, parent: str = "", mark: bool = False) -> Any:
        return SimpleNamespace(
            name=name, time_range=SimpleNamespace(start=start, end=end), device_type=device, is_user_annotation=mark,
            cpu_parent=SimpleNamespace(name=parent) if parent else None,
        )  # fmt: skip

    host, device = DeviceType.CPU, DeviceType.CUDA
    events = [
        event("kernelevolve::call", 0, 100, host), event("aten::mul", 5, 15, host, "kernelevolve::call"),
        event("cudaLaunchKernel", 8, 12, host, "aten::mul"), event("mul_kernel", 20, 50, device),
        event("add_kernel", 40, 60, device), event("kernelevolve::call", 20, 60, device, mark=True),
        event("mine", 20, 60, device, mark=True),
    ]  # fmt: skip
    found = summarise(events, 1)
    assert (found["kernel_count"], found["operation_count"]) == (2, 1)
    assert found["busy_seconds"] == pytest.approx(40e-6)
    assert found["seconds"] == pytest.approx(100e-6)
    assert [kernel["name"] for kernel in found["kernels"]] == ["mul_kernel", "add_kernel"]
