"""Loading by path and by name."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from kernelevolve.problems import TolerancePolicy
from kernelevolve.problems.loaders import LOADERS, load_problem
from kernelevolve.problems.suites import ranking

SOURCE = """
import torch
batch_size = 16
class Model(torch.nn.Module):
    def forward(self, x):
        return x + 1
def get_inputs():
    return [torch.rand(batch_size, 4)]
"""


def write(folder: Path, source: str = SOURCE) -> Path:
    path = folder / "add_one.py"
    path.write_text(source)
    return path


def test_registered() -> None:
    assert LOADERS.names() == ["kernelbench", "suite"]


def test_a_file(tmp_path: Path) -> None:
    problem = load_problem(write(tmp_path), overrides={"batch_size": 8}, scale=0.25)
    assert (problem.name, problem.source, problem.overrides) == ("add_one", SOURCE, {"batch_size": 2})
    assert problem.tolerance == TolerancePolicy()
    assert load_problem(str(tmp_path / "add_one.py")).overrides == {}


def test_the_digest_is_of_the_content_not_of_the_place(tmp_path: Path) -> None:
    first = load_problem(write(tmp_path))
    other = tmp_path / "other"
    other.mkdir()
    assert load_problem(write(other)).digest == first.digest
    assert load_problem(write(other, SOURCE + "# a comment\n")).digest != first.digest


@pytest.mark.parametrize("name", ["ranking/map_id", "ranking/map-id"])
def test_a_shipped_problem(name: str) -> None:
    assert load_problem(name).name == "map_id"


def test_a_file_goes_before_a_shipped_problem_of_the_same_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "ranking").mkdir()
    (tmp_path / "ranking" / "pffn.py").write_text(SOURCE)
    monkeypatch.chdir(tmp_path)
    assert load_problem("ranking/pffn.py").source == SOURCE
    assert load_problem("ranking/pffn").source != SOURCE


def test_all_shipped_problems_can_be_loaded() -> None:
    for name in ranking.names():
        assert load_problem(f"ranking/{name}").path is not None


@pytest.mark.parametrize(
    "text",
    [
        "TOLERANCE = {'k': 9.0, 'moved_fraction': 0.2}",
        "from kernelevolve.problems import TolerancePolicy\nTOLERANCE = TolerancePolicy(k=9.0, moved_fraction=0.2)",
    ],
)
def test_a_tolerance_is_read_without_running_the_file(tmp_path: Path, text: str) -> None:
    problem = load_problem(write(tmp_path, f"{SOURCE}\n{text}\nraise SystemExit\n"))
    assert problem.tolerance == TolerancePolicy(k=9.0, moved_fraction=0.2)


def test_loading_needs_no_torch() -> None:
    load = "from kernelevolve.problems.loaders import load_problem; load_problem('ranking/pffn')"
    script = f"import sys; {load}; print('torch' in sys.modules)"
    found = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert found.stdout.strip() == "False"
