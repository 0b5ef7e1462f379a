"""Landlock alone: a process that holds itself to rules."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from kernelevolve.workers import landlock
from kernelevolve.workers.landlock import LEAST_ABI, Rules, all_but

needs = pytest.mark.skipif(
    landlock.abi() < LEAST_ABI, reason=f"Landlock {LEAST_ABI} is needed, here is {landlock.abi()}"
)
needs_network = pytest.mark.skipif(landlock.abi() < 4, reason="Landlock knows TCP since ABI 4")
needs_scopes = pytest.mark.skipif(landlock.abi() < 6, reason="Landlock knows signals since ABI 6")


def held(rules: Rules, *attempts: str) -> list[str]:
    """Names of the exceptions that expressions raise under the rules ('' for none)."""
    given = json.dumps([[str(p) for p in paths] for paths in (rules.readable, rules.writable, rules.devices)])
    program = f"""
import os, socket, sys
from pathlib import Path
from kernelevolve.workers.landlock import Rules, restrict
restrict(Rules(*(tuple(map(Path, paths)) for paths in {given})))
for attempt in {list(attempts)!r}:
    try:
        eval(attempt)
        print("-")
    except OSError as error:
        print(type(error).__name__)
"""
    finished = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    return [line.removeprefix("-") for line in finished.stdout.split()]


@needs
def test_only_what_is_writable_can_be_written(tmp_path: Path) -> None:
    (tmp_path / "mine").mkdir()
    (tmp_path / "other").write_text("x")
    rules = Rules((Path("/"),), (tmp_path / "mine",))
    mine, other = str(tmp_path / "mine"), str(tmp_path / "other")
    denied = [f"open({other!r}, 'w')", f"os.truncate({other!r}, 0)", f"os.unlink({other!r})", f"os.mkdir({other!r} + '2')",
              f"os.rename({other!r}, {mine!r} + '/y')", f"os.mknod({mine!r} + '/disk', 0o60600, os.makedev(8, 0))"]  # fmt: skip
    errors = held(rules, *denied)
    assert all(error in ("PermissionError", "OSError") for error in errors)
    assert (tmp_path / "other").read_text() == "x"
    allowed = [f"open({mine!r} + '/x', 'w')", f"os.mkdir({mine!r} + '/d')", f"os.rename({mine!r} + '/x', {mine!r} + '/d/x')",
               f"open({other!r}).read()", f"os.mkfifo({mine!r} + '/pipe')", f"os.symlink('x', {mine!r} + '/link')"]  # fmt: skip
    assert held(rules, *allowed) == [""] * len(allowed)


@needs
def test_only_named_devices_can_be_written() -> None:
    rules = Rules((Path("/"),), (), (Path("/dev/null"),))
    assert held(rules, "open('/dev/null', 'w')", "open('/dev/full', 'w')") == ["", "PermissionError"]


@needs
def test_what_is_not_readable_cannot_be_read(tmp_path: Path) -> None:
    for name in ("secret", "shown"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "x").write_text("x")
    rules = Rules(tuple(all_but(frozenset({tmp_path / "secret"}))), ())
    assert held(rules, f"open({str(tmp_path / 'secret' / 'x')!r})", f"open({str(tmp_path / 'shown' / 'x')!r})",
                f"os.listdir({str(tmp_path / 'secret')!r})") == ["PermissionError", "", "PermissionError"]  # fmt: skip


@needs
def test_memory_of_the_parent_is_out_of_reach() -> None:
    assert held(Rules((Path("/"),), ()), "open(f'/proc/{os.getppid()}/mem')") == ["PermissionError"]


@needs_network
def test_no_tcp() -> None:
    rules = Rules((Path("/"),), ())
    assert held(rules, "socket.socket().connect(('127.0.0.1', 9))", "socket.socket().bind(('127.0.0.1', 0))") == [
        "PermissionError",
        "PermissionError",
    ]


@needs_scopes
def test_no_signals_to_processes_outside() -> None:
    assert held(Rules((Path("/"),), ()), "os.kill(os.getppid(), 0)", "os.kill(os.getpid(), 0)") == [
        "PermissionError",
        "",
    ]


@needs_scopes
def test_rules_without_a_scope_let_signals_through() -> None:
    program = """
import os
from pathlib import Path
from kernelevolve.workers.landlock import Rules, restrict
print(restrict(Rules((Path("/"),), (), scoped=False)))
os.kill(os.getppid(), 0)
"""
    finished = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert "signals" not in finished.stdout and "files" in finished.stdout


def test_all_but_covers_everything_else(tmp_path: Path) -> None:
    for name in ("a/b/secret", "a/b/seen", "a/seen", "c/deep"):
        (tmp_path / name).mkdir(parents=True)
    (tmp_path / "a" / "file").touch()
    (tmp_path / "a" / "link").symlink_to(tmp_path / "a" / "b" / "secret")
    covered = {
        path.relative_to(tmp_path).as_posix() for path in all_but(frozenset({tmp_path / "a/b/secret"}), tmp_path)
    }
    assert covered == {"a/b/seen", "a/seen", "a/file", "c"}
    assert list(all_but(frozenset(), tmp_path)) == [tmp_path]


def test_an_old_kernel_is_said_to_be_old(monkeypatch: pytest.MonkeyPatch) -> None:
    for version, words in (
        (0, "the kernel has none"),
        (LEAST_ABI - 1, f"ABI {LEAST_ABI - 1}, and {LEAST_ABI} is needed"),
    ):
        monkeypatch.setattr(landlock, "abi", lambda version=version: version)
        with pytest.raises(OSError, match=words):
            landlock.restrict(Rules((), ()))
