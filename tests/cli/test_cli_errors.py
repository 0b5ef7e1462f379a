"""Bad input: one sentence that says how to mend it, exit code 2, no traceback, whatever is wrong."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from kernelevolve import cli
from kernelevolve.cli.boundary import EXIT_CRASH, EXIT_INTERRUPTED, guarded
from kernelevolve.store import Store

GOOD = (
    "import torch\nclass Model(torch.nn.Module):\n    def forward(self, x):\n        return x.tanh()\n"
    "def get_inputs():\n    return [torch.rand(4, 4)]\ndef get_init_inputs():\n    return []\n"
)
FILES = {
    "good.py": GOOD,
    "syntax.py": "class Model(:\n",
    "no_model.py": GOOD.replace("class Model", "class Other"),
    "no_inputs.py": GOOD.replace("get_inputs", "inputs"),
    "empty.py": "",
    "tolerance.py": GOOD + "TOLERANCE = {'k': 'much'}\n",
    "candidate_syntax.py": "def broken(:\n",
    "tunables.py": "TUNABLES = TunableSpace({'A': range(3)})\nclass ModelNew: pass\n",
}
CASES: dict[str, tuple[str, str]] = {
    "no such file": ("optimize nowhere.py", "nowhere.py: "),
    "a directory": ("optimize .", "directory"),
    "not Python": ("optimize syntax.py", "syntax.py:1: "),
    "empty file": ("optimize empty.py", "class Model"),
    "no Model": ("optimize no_model.py", "class Model"),
    "no get_inputs": ("optimize no_inputs.py", "get_inputs"),
    "not text": ("optimize binary.py", "binary.py: "),
    "bad tolerance": ("optimize tolerance.py", "TOLERANCE"),
    "unknown shipped problem": ("optimize ranking/nothing", "rmsnorm_residual"),
    "unknown target": ("optimize good.py --target abacus", "abacus"),
    "unknown policy": ("optimize good.py --target cpu --policy hope", "hope"),
    "no evaluations": ("optimize good.py --evaluations 0", "--evaluations 0"),
    "no time": ("optimize good.py --minutes 0", "--minutes 0"),
    "endless": ("optimize good.py --minutes inf", "--minutes inf"),
    "not a number of minutes": ("optimize good.py --minutes soon", "--minutes"),
    "negative seed": ("optimize good.py --seed -1", "--seed -1"),
    "roofline in per cent": ("optimize good.py --target-roofline 90", "--target-roofline 90"),
    "setting without a value": ("optimize good.py --set batch_size", "NAME=VALUE"),
    "setting an unknown constant": ("optimize good.py --set batch=4", "'batch'"),
    "scale without a batch": ("optimize good.py --scale 0.5", "batch"),
    "scale of nothing": ("optimize ranking/rmsnorm_residual --scale 0", "scale"),
    "neither problem nor run": ("optimize", "--resume"),
    "both problem and run": ("optimize good.py --resume last", "--resume"),
    "a resumed run on another target": ("optimize --resume last --target cpu", "--target"),
    "resume without runs": ("optimize --resume last", "no runs"),
    "resume an unknown run": ("optimize --resume 2020 --out some", "2020"),
    "show without runs": ("show", "no runs"),
    "show an unknown run": ("show zebra --out some", "zebra"),
    "show an ambiguous run": ("show 2 --out some", "fits 2 runs"),
    "show a node that is not there": ("show last --node 7 --out some", "node 7"),
    "list without runs": ("list", "no runs"),
    "no such candidate": ("verify good.py nowhere.py", "nowhere.py: "),
    "candidate is not Python": ("verify good.py candidate_syntax.py", "candidate_syntax.py:1: "),
    "candidate with unreadable tunables": ("verify good.py tunables.py", "TUNABLES"),
    "verify without a candidate": ("verify good.py", "CANDIDATE"),
    "unknown option": ("optimize good.py --faster", "--faster"),
    "unknown command": ("optimise good.py", "optimise"),
}  # fmt: skip


@pytest.fixture
def directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name, text in FILES.items():
        (tmp_path / name).write_text(text)
    (tmp_path / "binary.py").write_bytes(b"\xff\xfe\x00\x80")
    store = Store(tmp_path / "some")
    from kernelevolve.problems import Problem

    for _ in range(2):
        store.create_run(Problem(name="good", source=GOOD), "cpu")
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("KERNELEVOLVE_DATABASE_URL", raising=False)
    return tmp_path


@pytest.mark.parametrize("name", CASES)
def test_bad_input_is_one_sentence_and_exit_code_2(
    name: str, directory: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words, expected = CASES[name]
    assert cli.run(words.split()) == 2
    said = capsys.readouterr()
    assert said.out == ""
    assert said.err.startswith("error: ")
    assert said.err.count("\n") == 1
    assert expected in said.err
    assert "; " in said.err  # the fix
    assert "Traceback" not in said.err


@pytest.mark.parametrize(
    "name", ["no such file", "not Python", "unknown target", "show without runs", "unknown option"]
)
def test_with_json_the_sentence_is_a_document_too(
    name: str, directory: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words, expected = CASES[name]
    assert cli.run([*words.split(), "--json"]) == 2
    said = capsys.readouterr()
    document = json.loads(said.out)
    assert list(document) == ["error"]
    assert expected in document["error"]
    assert document["error"] in said.err


def test_looking_at_runs_makes_no_directory(directory: Path) -> None:
    cli.run(["show"])
    cli.run(["list", "--out", "elsewhere"])
    assert not (directory / "runs").exists()
    assert not (directory / "elsewhere").exists()


def test_a_fault_of_the_program_leaves_a_crash_log_and_no_traceback(capsys: pytest.CaptureFixture[str]) -> None:
    def broken(words: object) -> None:
        raise ZeroDivisionError("secret of the inside")

    assert guarded(broken, ["show", "--json"]) == EXIT_CRASH
    said = capsys.readouterr()
    assert said.err.count("\n") == 1
    assert "ZeroDivisionError" in said.err
    log = Path(json.loads(said.out)["error"].rpartition(" ")[2])
    text = log.read_text()
    log.unlink()
    assert "secret of the inside" in text
    assert "Traceback" in text
    assert "['show', '--json']" in text


def test_ctrl_c_before_anything_is_stored_is_an_exit_code_and_no_traceback(capsys: pytest.CaptureFixture[str]) -> None:
    def interrupted(words: object) -> None:
        raise KeyboardInterrupt

    assert guarded(interrupted, []) == EXIT_INTERRUPTED
    assert capsys.readouterr().err == "error: interrupted\n"


def test_a_reader_that_goes_away_is_no_crash(directory: Path) -> None:
    command = f"{sys.executable} -m kernelevolve.cli --help; echo status $? >&2"
    read, write = os.pipe()
    os.close(read)
    finished = subprocess.run(["bash", "-c", command], stdout=write, stderr=subprocess.PIPE, text=True, check=True)
    os.close(write)
    assert "Traceback" not in finished.stderr
    assert "Exception" not in finished.stderr


def test_a_sentence_cannot_steer_the_terminal(directory: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.run(["optimize", "a\x1b[2Jb.py"]) == 2
    assert "\x1b" not in capsys.readouterr().err
