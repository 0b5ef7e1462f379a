"""Builds named by their content, made once and shared by whoever asks for the same."""

from __future__ import annotations

import os
import subprocess
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path

from kernelevolve.hashing import digest_json

_LOG_LINES = 40
_built: dict[Path, None] = {}


class BuildError(Exception):
    """A compiler refused a source. The message is the compiler's own words, trimmed to the first errors."""

    def __init__(self, log: str, command: Sequence[str] = ()) -> None:
        self.log = log
        self.command = tuple(command)
        super().__init__(trim(log))


def build_directory() -> Path:
    """Where builds are kept: KERNELEVOLVE_BUILD_DIR, which the judge sets per candidate, else the user's cache."""
    given = os.environ.get("KERNELEVOLVE_BUILD_DIR")
    path = Path(given) if given else user_cache() / "build"
    path.mkdir(parents=True, exist_ok=True)
    return path


def user_cache() -> Path:
    """The directory for what may be deleted at any time."""
    base = os.environ.get("XDG_CACHE_HOME")
    return (Path(base) if base else Path.home() / ".cache") / "kernelevolve"


def built_artifacts() -> list[Path]:
    """What this process has built or taken from the cache, in order."""
    return list(_built)


def cached_build(inputs: object, suffix: str, make: Callable[[Path], None]) -> Path:
    """The artifact of these inputs (any JSON value); ``make(path)`` is called to write it if it is not there.

    Safe for several processes at once: the file appears under its name only when it is complete.
    """
    path = build_directory() / f"{digest_json(inputs)[:32]}{suffix}"
    if not path.exists():
        descriptor, temporary = tempfile.mkstemp(suffix=suffix, dir=path.parent)
        os.close(descriptor)
        try:
            make(Path(temporary))
            Path(temporary).chmod(0o755)
            Path(temporary).replace(path)
        finally:
            Path(temporary).unlink(missing_ok=True)
    _built[path] = None
    return path


def run_compiler(command: Sequence[str]) -> str:
    """Run a compiler to its end; its messages. Raises BuildError if it fails or is not there."""
    try:
        finished = subprocess.run(command, capture_output=True, text=True, errors="replace", check=False)
    except FileNotFoundError:
        raise BuildError(f"there is no compiler {command[0]!r} on this machine", command) from None
    log = finished.stdout + finished.stderr
    if finished.returncode != 0:
        raise BuildError(log or f"{command[0]} ended with {finished.returncode}", command)
    return log


def trim(log: str) -> str:
    """The first errors of a compiler log with the lines around them."""
    lines = [line for line in log.splitlines() if line.strip()]
    first = next((i for i, line in enumerate(lines) if "error" in line.lower()), 0)
    part = lines[first : first + _LOG_LINES]
    return "\n".join(part + ["…"] * (first + _LOG_LINES < len(lines)))
