"""The registry of targets, the specification sheets, and a real measurement of this machine."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from kernelevolve.errors import InvalidRequest, KernelEvolveError, MissingTarget
from kernelevolve.languages import Availability
from kernelevolve.targets import TARGETS, resolve, specification, topology
from kernelevolve.targets.cpu import Cpu
from kernelevolve.targets.measured import cpu as measured_cpu
from kernelevolve.targets.nvidia import Nvidia


def test_registry() -> None:
    assert TARGETS.names() == ["cpu", "nvidia"]
    for name in TARGETS:
        assert TARGETS.get(name).name == name
    with pytest.raises(InvalidRequest, match="there is no target named 'tpu'; use one of: cpu, nvidia"):
        resolve("tpu")


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU")
def test_without_a_gpu() -> None:
    assert resolve("auto").name == "cpu"
    with pytest.raises(MissingTarget, match=r"no usable nvidia target: .*--target cpu"):
        resolve("nvidia")
    nvidia = Nvidia()
    assert nvidia.ceilings() == specification.load("h100").ceilings()
    assert not nvidia.ceilings().measured
    assert nvidia.facts()["device"] == nvidia.device_name() == "NVIDIA H100 SXM5 80GB"


@pytest.mark.parametrize("name", specification.names())
def test_sheets_are_plausible(name: str) -> None:
    sheet = specification.load(name)
    assert sheet.target in TARGETS.names() and sheet.source
    ceilings = sheet.ceilings()
    assert not ceilings.measured and ceilings.device == sheet.name
    flops = ceilings.flops
    assert flops["float64"] <= flops["float32"] <= flops.get("tf32", flops["float32"]) <= flops["bfloat16"]
    if sheet.target == "nvidia":
        assert flops["float16"] == flops["bfloat16"] > 1.9 * flops["tf32"], "dense figures, not sparse ones"
        assert sheet.facts["l2_bytes"] == sheet.cache_bytes
        facts = {"compute_capability", "multiprocessors", "shared_bytes", "warp_size", "memory_bytes"}
        assert facts <= set(sheet.facts)


def test_a_sheet_that_is_wrong_or_not_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(InvalidRequest, match="no specification named 'h1000'; use one of: a100"):
        specification.load("h1000")
    monkeypatch.setattr(specification, "_DIRECTORY", tmp_path)
    for text in ("name = ", 'name = "x"\nbandwidth = -1.0'):
        (tmp_path / "odd.toml").write_text(text)
        with pytest.raises(KernelEvolveError, match=r"odd.toml: the specification cannot be read") as caught:
            specification.load("odd")
        assert "\n" not in caught.value.sentence


def test_facts_of_this_machine() -> None:
    facts = Cpu().facts()
    assert {"device", "threads", "physical_cores", "isa", "simd_bytes"} <= set(facts)
    assert 1 <= int(facts["threads"]) <= len(topology.allowed_cpus())
    assert facts["simd_bytes"] in (16, 32, 64)


def test_a_real_measurement(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Short and small: whether the numbers hang together, not how good they are."""
    monkeypatch.setenv("KERNELEVOLVE_BUILD_DIR", str(tmp_path))
    monkeypatch.setattr(measured_cpu, "_SECONDS_EACH", 0.02)
    monkeypatch.setattr(measured_cpu, "_SMALLEST_BUFFER", 1 << 24)
    before = torch.get_num_threads()
    ceilings = measured_cpu.measure()
    assert torch.get_num_threads() == before
    assert ceilings.measured and ceilings.threads == topology.usable_threads()
    assert ceilings.device == topology.processor_name()
    assert 1e8 < ceilings.read_bandwidth < 1e13 and 1e8 < ceilings.copy_bandwidth < 1e13
    assert set(ceilings.flops) == {"float32", "float64", "bfloat16", "float16"}
    assert min(ceilings.flops["bfloat16"], ceilings.flops["float16"]) >= ceilings.flops["float32"] > 1e8
    assert 0 < ceilings.launch_seconds < 1e-3


def test_without_a_compiler_the_sheet_stands_in(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Cpu, "availability", lambda self: Availability(ok=False, missing="a C++ compiler", fix="g++"))
    assert Cpu().ceilings() == specification.load("cpu").ceilings()
    with pytest.raises(MissingTarget, match="no usable cpu target: a C"):
        resolve("cpu")


@pytest.mark.nvidia
@pytest.mark.skipif(not torch.cuda.is_available(), reason="no NVIDIA GPU")
def test_a_real_measurement_of_a_gpu(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    nvidia = Nvidia()
    assert resolve("auto").name == "nvidia"
    ceilings = nvidia.ceilings()
    assert ceilings.measured and ceilings.device == nvidia.device_name()
    assert ceilings.flops["tf32"] > ceilings.flops["float32"] > 1e12
    assert ceilings.cache_bytes == nvidia.facts()["l2_bytes"]
    assert not torch.backends.cuda.matmul.allow_tf32
