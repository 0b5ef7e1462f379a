"""The main job from the terminal: search, interrupt, continue, judge; one document on stdout, the rest on stderr."""

from __future__ import annotations

import json
import re
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from kernelevolve import cli, session
from kernelevolve.cli.boundary import EXIT_INTERRUPTED
from kernelevolve.judge.certificate import Certificate
from kernelevolve.store import RunStatus
from stored_runs import make_run

PROBLEM = (
    "import torch\nrows = 64\nclass Model(torch.nn.Module):\n    def forward(self, x):\n"
    "        return torch.softmax(torch.tanh(x) * 2.0, dim=-1)\n"
    "def get_inputs():\n    return [torch.randn(rows, 256)]\ndef get_init_inputs():\n    return []\n"
)
RIGHT = (
    "import torch\nclass ModelNew(torch.nn.Module):\n    def forward(self, x):\n"
    "        return torch.softmax(torch.tanh(x) * 2.0, dim=-1)\n"
)


def command(*words: str) -> list[str]:
    return [sys.executable, "-m", "kernelevolve.cli", *words]


def document(finished: subprocess.CompletedProcess[str]) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(finished.stdout)
    return found


def execute(directory: Path, *words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(command(*words), cwd=directory, capture_output=True, text=True, check=False, timeout=900)


@pytest.fixture(scope="module")
def workspace(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One for all tests of this module, because the compiled baseline is kept in it."""
    directory = tmp_path_factory.mktemp("work")
    (directory / "problem.py").write_text(PROBLEM)
    (directory / "right.py").write_text(RIGHT)
    (directory / "wrong.py").write_text(RIGHT.replace("* 2.0", "* 1.9"))
    return directory


@pytest.mark.slow
def test_a_search_leaves_kernel_certificate_and_report(workspace: Path) -> None:
    finished = execute(
        workspace, "optimize", "problem.py", "--target", "cpu", "--evaluations", "4", "--minutes", "1", "--json"
    )
    assert finished.returncode == 0, finished.stderr
    summary = document(finished)
    assert summary["problem"] == "problem"
    assert summary["target"] == "cpu"
    assert sum(summary["verdicts"].values()) == summary["evaluations"] <= 4
    best = summary["best"]
    assert best["verdict"] == "correct"
    for speedup in best["speedup"].values():
        assert speedup["low"] <= speedup["value"] <= speedup["high"]
        assert speedup["clock"] == "wall"
    assert set(best["speedup"]) == {"eager", "compile"}
    assert "run " + summary["run"] in finished.stderr
    assert "new best: node" in finished.stderr
    place = workspace / "runs" / summary["run"]
    certificate = Certificate.model_validate_json((place / "best" / "certificate.json").read_text())
    assert certificate.check_consistency(kernel=(place / "best" / "kernel.py").read_text()) == []
    assert summary["run"] in (place / "report.html").read_text()

    shown = execute(workspace, "show", "last", "--json")
    assert document(shown)["run"] == summary["run"]

    verified = execute(
        workspace, "verify", "problem.py", str(place / "best" / "kernel.py"), "--target", "cpu", "--json"
    )
    assert verified.returncode == 0, verified.stderr
    assert document(verified)["verdict"] == "correct"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("candidate", "code", "verdict"),
    [("right.py", 0, "correct"), ("wrong.py", 1, "wrong")],
)
def test_verify_tells_right_from_wrong_by_its_exit_code(
    workspace: Path, candidate: str, code: int, verdict: str
) -> None:
    finished = execute(workspace, "verify", "problem.py", candidate, "--target", "cpu", "--json")
    assert finished.returncode == code, finished.stderr
    found = document(finished)
    assert found["verdict"] == verdict
    assert verdict in finished.stderr
    assert bool(found["reason"]) == (code != 0)
    assert bool(found["speedup"]) == (code == 0)
    assert found["faster"] is False  # a short judgement never claims


@pytest.mark.slow
def test_ctrl_c_keeps_everything_and_the_printed_command_continues(workspace: Path) -> None:
    words = ("optimize", "problem.py", "--target", "cpu", "--evaluations", "500", "--minutes", "60", "--json")
    with subprocess.Popen(
        command(*words), cwd=workspace, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, bufsize=1
    ) as process:
        assert process.stderr is not None
        assert process.stdout is not None
        said = ""
        for line in process.stderr:
            said += line
            if "new best" in line:
                break
        process.send_signal(signal.SIGINT)
        rest = process.stderr.read()
        summary = json.loads(process.stdout.read())
    assert process.returncode == EXIT_INTERRUPTED, said + rest
    assert summary["status"] == "interrupted"
    assert summary["evaluations"] >= 1
    resume = re.search(r"kernelevolve (optimize --resume \S+)", rest)
    assert resume is not None, rest
    assert "Traceback" not in rest

    limit = str(summary["evaluations"] + 1)
    finished = execute(workspace, *resume.group(1).split(), "--evaluations", limit, "--minutes", "3", "--json")
    assert finished.returncode == 0, finished.stderr
    continued = document(finished)
    assert continued["run"] == summary["run"]
    assert summary["evaluations"] <= continued["evaluations"] <= int(limit)
    assert continued["best"]["verdict"] == "correct"


def test_an_interrupted_run_ends_with_the_command_that_continues_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "problem.py").write_text(PROBLEM)
    monkeypatch.chdir(tmp_path)
    run = make_run(tmp_path / "other place", 20)
    run.store.set_status(run.id, RunStatus.INTERRUPTED, "interrupted")
    monkeypatch.setattr(session, "optimize", lambda *args, **options: run)
    assert cli.run(["optimize", "problem.py", "--out", "other place", "--quiet"]) == EXIT_INTERRUPTED
    said = capsys.readouterr()
    assert f"kernelevolve optimize --resume {run.id} --out '{tmp_path / 'other place'}'" in said.err
    assert "20  (" in said.out  # the summary of what was kept


def test_a_search_that_finds_nothing_correct_has_an_exit_code_of_its_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "problem.py").write_text(PROBLEM)
    monkeypatch.chdir(tmp_path)
    run = make_run(tmp_path / "runs", 0)
    monkeypatch.setattr(session, "optimize", lambda *args, **options: run)
    assert cli.run(["optimize", "problem.py", "--json"]) == 1
    said = capsys.readouterr()
    assert json.loads(said.out)["best"] is None
    assert "No correct kernel was found" in said.err


def test_options_reach_the_search(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "problem.py").write_text(PROBLEM)
    monkeypatch.chdir(tmp_path)
    run = make_run(tmp_path / "runs", 3)
    heard: dict[str, Any] = {}

    def record(problem: Any, **options: Any) -> Any:
        heard.update(options, problem=problem)
        return run

    monkeypatch.setattr(session, "optimize", record)
    words = (
        "optimize problem.py --target cpu --evaluations 7 --minutes 0.5 --seed 3 --policy beam --target-roofline 0.8"
    )
    assert cli.run([*words.split(), "--set", "rows=16"]) == 0
    assert heard["problem"].overrides == {"rows": 16}
    assert {k: heard[k] for k in ("target", "evaluations", "minutes", "seed", "policy", "roofline_target")} == {
        "target": "cpu", "evaluations": 7, "minutes": 0.5, "seed": 3, "policy": "beam", "roofline_target": 0.8,
    }  # fmt: skip
    assert len(heard["listeners"]) == 1
    assert cli.run(["optimize", "problem.py", "--quiet"]) == 0
    assert (heard["evaluations"], heard["minutes"], heard["listeners"]) == (60, 10, ())


@pytest.mark.parametrize(
    ("text", "value"),
    [("a=1", 1), ("a=1e-3", 1e-3), ("a=True", True), ("a=fp16", "fp16"), ("a=", ""), ("a=[1]", "[1]")],
)
def test_settings_are_python_literals_or_text(text: str, value: object) -> None:
    from kernelevolve.cli.optimize import parse_setting

    name, parsed = parse_setting(text)
    assert (name, parsed, type(parsed)) == ("a", value, type(value))
