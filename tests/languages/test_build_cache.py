"""Builds are made once, appear whole, and a compiler's log is cut to what helps."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from kernelevolve.errors import KernelEvolveError, MissingTarget
from kernelevolve.languages import build_cache
from kernelevolve.languages.build_cache import BuildError, build_log, built_artifacts, cached_build, run_compiler

GCC_LOG = """\
In file included from kernel.cpp:1:
ke.h: In function 'f':
ke.h:2:7: warning: unused variable 'a'
    2 |   int a;
      |       ^
kernel.cpp:3:5: error: 'x' was not declared in this scope
    3 |   a = x;
      |       ^
kernel.cpp:4:5: error: 'y' was not declared in this scope
    4 |   a = y;
      |       ^
kernel.cpp:4:5: note: suggested alternative: 'z'
kernel.cpp:5:5: error: 'z' was not declared in this scope
kernel.cpp:6:5: error: 'w' was not declared in this scope
"""


def test_made_once_and_kept_with_its_log(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KERNELEVOLVE_BUILD_DIR", str(tmp_path / "builds"))
    calls = []

    def make(path: Path) -> str:
        calls.append(path)
        path.write_bytes(b"artifact")
        return "a warning"

    first = cached_build({"source": "a"}, ".so", make)
    again = cached_build({"source": "a"}, ".so", make)
    other = cached_build({"source": "b"}, ".so", make)
    assert first == again != other
    assert len(calls) == 2
    assert first.read_bytes() == b"artifact"
    assert build_log(first) == "a warning"
    assert {first, other} <= set(built_artifacts())
    assert {p.suffix for p in first.parent.iterdir()} == {".so", ".log"}, "scratch directories are gone"
    assert (first.parent.stat().st_mode & 0o077) == 0, "nobody else may put code there"


def test_a_failed_build_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KERNELEVOLVE_BUILD_DIR", str(tmp_path))

    def fail(path: Path) -> str:
        path.write_bytes(b"half")
        raise BuildError("error: no")

    for _ in range(2):
        with pytest.raises(BuildError):
            cached_build({"source": "bad"}, ".so", fail)
    assert list(tmp_path.iterdir()) == []


def test_processes_that_build_the_same_at_once(tmp_path: Path) -> None:
    program = (
        "import os, sys, time\n"
        "from kernelevolve.languages.build_cache import cached_build\n"
        "def make(path):\n"
        "    with open(path, 'wb') as f:\n"
        "        for _ in range(20):\n"
        "            f.write(b'x' * 1000); f.flush(); time.sleep(0.01)\n"
        "    return 'log'\n"
        "print(len(cached_build('same', '.so', make).read_bytes()))\n"
    )
    environment = {"KERNELEVOLVE_BUILD_DIR": str(tmp_path), "PYTHONPATH": ":".join(sys.path), "PATH": "/usr/bin:/bin"}
    running = [
        subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True, env=environment)
        for _ in range(3)
    ]
    assert [process.communicate()[0].strip() for process in running] == ["20000"] * 3
    assert sorted(p.suffix for p in tmp_path.iterdir()) == [".log", ".so"]


def test_the_first_errors_with_their_lines() -> None:
    error = BuildError(GCC_LOG, ["g++", "kernel.cpp"])
    lines = str(error).splitlines()
    assert lines[0] == "kernel.cpp:3:5: error: 'x' was not declared in this scope"
    assert lines[1:3] == ["    3 |   a = x;", "      |       ^"]
    assert "warning" not in str(error) and "note" not in str(error)
    assert lines[-1] == "(1 more lines with errors)"
    assert error.log == GCC_LOG and error.command == ("g++", "kernel.cpp")
    assert error.sentence.startswith("the source does not compile: kernel.cpp:3:5")


def test_a_log_without_errors_is_shown_from_its_start() -> None:
    assert str(BuildError("first line\n\nsecond line\n")) == "first line\nsecond line"


def test_a_compiler_that_fails_silently_or_is_not_there() -> None:
    with pytest.raises(BuildError, match="ended with 1"):
        run_compiler(["false"])
    with pytest.raises(MissingTarget, match="no-such-compiler"):
        run_compiler(["no-such-compiler"])


def test_a_directory_that_cannot_be_made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("KERNELEVOLVE_BUILD_DIR", str(tmp_path / "file" / "builds"))
    with pytest.raises(KernelEvolveError, match="set KERNELEVOLVE_BUILD_DIR"):
        build_cache.build_directory()


def test_the_users_cache(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("KERNELEVOLVE_BUILD_DIR")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert build_cache.build_directory() == tmp_path / "kernelevolve" / "build"
