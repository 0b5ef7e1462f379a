"""Ask, tell and their kin from the terminal, as far as nothing need be judged for it."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from kernelevolve import cli
from kernelevolve.agent.server import Tools, make_server
from kernelevolve.errors import KernelEvolveError
from kernelevolve.knowledge import KnowledgeBase
from kernelevolve.workers.sandbox import Sandbox
from stored_runs import make_run


def run(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, str, str]:
    code = cli.run(words)
    captured = capsys.readouterr()
    return code, captured.out, captured.err


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (("ask",), "there are no runs in 'nowhere'"),
        (("tell", "last", "missing.py"), "missing.py: the candidate cannot be read"),
        (("ask", "last", "--memory", "all"), "there is no memory 'all'; use one of: inherit, siblings, both, clean"),
        (("export", "--format", "csv"), "there is no format 'csv'; use one of: sft, dpo, grpo"),
    ],
)
def test_bad_input_is_one_sentence(
    words: tuple[str, ...],
    sentence: str,
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    code, _, complaint = run(capsys, *words, "--out", "nowhere")
    assert code == 2 and complaint.startswith("error: ") and sentence in complaint and complaint.count("\n") == 1


def test_a_run_of_another_device_is_not_asked(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    made = make_run(tmp_path, 3)
    code, _, complaint = run(capsys, "ask", made.id, "--out", str(tmp_path))
    assert code == 2 and "was timed on" in complaint


def test_export_writes_json_lines(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    made = make_run(tmp_path, 12)
    code, lines, _ = run(capsys, "export", made.id, "--out", str(tmp_path))
    assert code == 0
    assert {json.loads(line)["verdict"] for line in lines.splitlines()} == {"correct"}


def test_a_transport_that_does_not_exist_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(capsys, "mcp", "--transport", "pigeon")[0] == 2


def test_without_the_sdk_the_server_says_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "mcp.server.mcpserver", None)
    with pytest.raises(KernelEvolveError, match=r"pip install 'kernelevolve\[mcp\]'"):
        make_server(Tools(tmp_path, Sandbox.AUTO, KnowledgeBase()), knowledge=True)
