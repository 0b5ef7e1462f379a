"""Conditions: what nvidia-smi says is recorded under plain names, and its absence is no error."""

from __future__ import annotations

import stat
from pathlib import Path

import pytest

from kernelevolve.targets import conditions

SMI = """#!/bin/sh
case "$2" in
  *compute-apps*) printf '101\\n102\\n';;
  *) echo '1980 MHz, 1980 MHz, 3201 MHz, 128.52 W, 700.00 W, 31, 0x0000000000000000, 512 MiB, Default, [N/A]';;
esac
"""


def test_what_a_driver_says_and_what_it_does_not_know(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tool = tmp_path / "nvidia-smi"
    tool.write_text(SMI)
    tool.chmod(tool.stat().st_mode | stat.S_IXUSR)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    found = conditions.of_gpu(0)
    assert found["sm_clock"] == "1980 MHz" and found["power"] == "128.52 W" and found["temperature"] == "31"
    assert found["programs_on_the_device"] == "2"
    assert "mig" not in found


def test_without_the_tool_nothing_is_said(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    assert conditions.of_gpu(0) == {}


def test_the_load_of_the_machine_is_always_known() -> None:
    assert float(conditions.of_cpu()["load"]) >= 0
