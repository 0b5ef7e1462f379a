"""Start-up: the command line answers before anything heavy is imported."""

from __future__ import annotations

import re
import subprocess
import sys

import pytest

from kernelevolve import __version__, cli

HEAVY = ("torch", "sqlalchemy", "pydantic", "numpy", "sklearn", "triton", "jinja2", "rich.live", "rich.table")


def test_importing_the_command_line_imports_nothing_heavy() -> None:
    program = f"import sys, kernelevolve.cli; print([m for m in {HEAVY!r} if m in sys.modules])"
    finished = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert finished.stdout.strip() == "[]"


@pytest.mark.parametrize("words", [["--help"], ["optimize", "--help"], ["--version"], ["optimize"]])
def test_neither_help_nor_a_refusal_imports_torch(words: list[str]) -> None:
    program = (
        f"import sys, kernelevolve.cli as cli\ncode = cli.run({words!r})\n"
        "print([m for m in ('torch', 'sqlalchemy') if m in sys.modules], file=sys.stderr)\n"
    )
    finished = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert finished.stderr.splitlines()[-1] == "[]"


def test_help_names_every_command(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.run(["--help"]) == 0
    text = capsys.readouterr().out
    assert set(re.findall(r"^  ([a-z]+)  ", text, re.MULTILINE)) >= {"optimize", "verify", "show", "list", "doctor"}


def test_no_words_are_a_question_for_help(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.run([]) == 0
    assert "Usage:" in capsys.readouterr().out


def test_the_version_is_printed(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.run(["--version"]) == 0
    assert capsys.readouterr().out == f"kernelevolve {__version__}\n"
