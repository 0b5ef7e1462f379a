"""The doctor finds something about everything, on any machine."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from kernelevolve import doctor
from kernelevolve.doctor import Finding, examine

EXPECTED = {
    "C++ compiler", "clang++", "nvcc", "NVRTC", "Triton", "processor", "torch", "NVIDIA GPU", "Triton interpreter",
    "shared memory", "ncu", "compute-sanitizer", "perf", "valgrind", "sandbox", "namespaces", "seccomp", "Landlock",
    "process limit", "SQLite", "build cache",
}  # fmt: skip


def by_name(findings: list[Finding]) -> dict[str, Finding]:
    return {finding.name: finding for finding in findings}


def test_everything_is_looked_at() -> None:
    findings = examine()
    assert {finding.name for finding in findings} == EXPECTED
    assert len(findings) == len(EXPECTED)
    assert all(finding.detail for finding in findings)
    broken = [f for f in findings if "could not be examined" in f.detail]
    assert broken == []
    assert by_name(findings)["torch"].state == "ok"
    assert by_name(findings)["SQLite"].state == "ok"


def test_whatever_is_missing_has_its_fix(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    findings = by_name(examine())
    for name, package in (
        ("clang++", "clang"), ("perf", "linux-perf"), ("valgrind", "valgrind"), ("ncu", "nsight-compute"),
    ):  # fmt: skip
        assert findings[name].state == "missing", name
        assert package in findings[name].fix
    assert all(f.fix for f in findings.values() if f.state == "missing")


def test_the_sanitizer_of_a_toolkit_is_found_as_the_judge_finds_it(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    tool = tmp_path / "bin" / "compute-sanitizer"
    tool.parent.mkdir()
    tool.write_text("#!/bin/sh\necho Version 2025.3.0\n")
    tool.chmod(0o755)
    monkeypatch.setattr(doctor.cuda_toolkit, "roots", lambda: (tmp_path,))
    found = by_name(examine())["compute-sanitizer"]
    assert found.state == "ok" and found.detail[:1].isdigit()


def test_a_program_that_hangs_or_breaks_is_limited(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(doctor, "_PROBE_SECONDS", 0.2)
    for name, text in (
        ("valgrind", "#!/bin/sh\nexec sleep 5\n"),
        ("ncu", "#!/bin/sh\nexit 3\n"),
        ("clang++", "not a program"),
    ):
        (tmp_path / name).write_text(text)
        (tmp_path / name).chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    findings = by_name(examine())
    assert [findings[name].state for name in ("valgrind", "ncu", "clang++")] == ["limited"] * 3
    assert "does not answer" in findings["ncu"].detail


@pytest.mark.parametrize(("report", "state"), [
    ({}, "missing"),
    ({"files": "shared", "seccomp": "on", "landlock": "on, ABI 4: files, TCP"}, "limited"),
])  # fmt: skip
def test_a_weak_sandbox_has_its_level_and_its_fix(
    monkeypatch: pytest.MonkeyPatch, report: dict[str, str], state: str
) -> None:
    monkeypatch.setattr(doctor.sandbox, "probe", lambda: report)
    findings = by_name(examine())
    assert (findings["sandbox"].state, findings["namespaces"].state) == (state, "missing")
    assert all(findings[name].fix for name in ("sandbox", "namespaces", "process limit"))
    assert ("--sandbox none" in findings["sandbox"].detail) is (state == "missing")


def test_a_probe_that_raises_is_a_finding(monkeypatch: pytest.MonkeyPatch) -> None:
    def _shared_memory() -> Finding:
        raise PermissionError("no")

    monkeypatch.setattr(doctor, "_PROBES", {"run": (_shared_memory,)})
    (finding,) = examine()
    assert (finding.name, finding.area, finding.state) == ("shared memory", "run", "missing")
    assert "no" in finding.detail


def test_a_build_directory_that_cannot_be_used(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("KERNELEVOLVE_BUILD_DIR", str(tmp_path / "file" / "x"))
    finding = by_name(examine())["build cache"]
    assert finding.state == "missing" and "KERNELEVOLVE_BUILD_DIR" in finding.fix


def test_torch_is_not_imported() -> None:
    program = "import sys\nfrom kernelevolve.doctor import examine\nexamine()\nprint('torch' in sys.modules)"
    answer = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert answer.stdout.strip() == "False"
