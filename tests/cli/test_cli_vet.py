"""``kernelevolve vet``: every problem gets a standing, whatever is wrong with the one before it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from kernelevolve import cli

HONEST = """
import torch
class Model(torch.nn.Module):
    def forward(self, x):
        return x @ x.t()
def get_inputs():
    return [torch.randn(8, 16)]
"""
POSITIVE = HONEST.replace("x @ x.t()", "torch.relu(x)").replace("randn", "rand")
CONSTANT = HONEST.replace("x @ x.t()", "torch.zeros(4)")
BROKEN = HONEST.replace("x @ x.t()", "x @ x")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name, text in (("2_positive", POSITIVE), ("10_honest", HONEST), ("constant", CONSTANT), ("broken", BROKEN)):
        (tmp_path / f"{name}.py").write_text(text)
    return tmp_path


def test_each_problem_gets_its_standing(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code = cli.run(["vet", str(folder), "--target", "cpu", "--json"])
    captured = capsys.readouterr()
    found = {p["problem"].rpartition("/")[2].removesuffix(".py"): p for p in json.loads(captured.out)["problems"]}
    assert code == 1
    assert list(found) == ["2_positive", "10_honest", "broken", "constant"]
    standings = {name: problem["standing"] for name, problem in found.items()}
    assert standings == {
        "2_positive": "judged in part", "10_honest": "judged", "broken": "not run", "constant": "vacuous",
    }  # fmt: skip
    assert "a copy of input 0" in found["2_positive"]["vacuous_as_written"]["1e-4"]
    assert "as-written" not in found["2_positive"]["usable_workloads"]
    assert "broken.py" in found["broken"]["error"]
    assert "4 problems" in captured.err and "Traceback" not in captured.err


def test_problems_that_can_be_judged_are_no_failure(folder: Path) -> None:
    assert cli.run(["vet", str(folder / "10_honest.py"), str(folder / "2_positive.py"), "--target", "cpu"]) == 0


def test_a_directory_without_problems_is_said_in_a_sentence(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.run(["vet", str(tmp_path), "--target", "cpu"]) == 2
    assert "no Python file" in capsys.readouterr().err
