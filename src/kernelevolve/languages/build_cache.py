"""Builds named by their content: made once, kept with what the compiler said, shared by whoever asks for the same."""

from __future__ import annotations

import os
import re
import subprocess
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path

from kernelevolve.errors import KernelEvolveError, MissingTarget
from kernelevolve.hashing import digest_json

BUILD_DIRECTORY_VARIABLE = "KERNELEVOLVE_BUILD_DIR"
_ERROR = re.compile(r"\berror\b(?! detected in)|\bfatal\b|undefined reference", re.IGNORECASE)
_DIAGNOSTIC = re.compile(r"\b(error|warning|note|fatal)\b\s*:|In file included|In function|undefined reference")
_SHOWN_ERRORS = 3
_LINES_PER_ERROR = 8
_built: dict[Path, None] = {}


class BuildError(KernelEvolveError):
    """A compiler refused a source. ``str()`` is the compiler's own words, trimmed to the first errors.

    ``log`` is all it said, ``command`` how it was called (empty if the source was refused before that).
    """

    def __init__(self, log: str, command: Sequence[str] = ()) -> None:
        self.log = log
        self.command = tuple(command)
        self.excerpt = first_errors(log)
        first = self.excerpt.partition("\n")[0].removeprefix("error: ")
        super().__init__(f"the source does not compile: {first}", fix="correct the source")

    def __str__(self) -> str:
        return self.excerpt


def first_errors(log: str) -> str:
    """The first errors of a compiler log, each with the source lines that the compiler shows below it."""
    lines = [line.rstrip() for line in log.splitlines() if line.strip()]
    errors = [i for i, line in enumerate(lines) if _ERROR.search(line)]
    if not errors:
        return "\n".join(lines[: _SHOWN_ERRORS * _LINES_PER_ERROR])
    shown: list[str] = []
    for at in errors[:_SHOWN_ERRORS]:
        end = at + 1
        while end < min(len(lines), at + _LINES_PER_ERROR) and not _DIAGNOSTIC.search(lines[end]):
            end += 1
        shown += lines[at:end]
    hidden = len(errors) - _SHOWN_ERRORS
    return "\n".join(shown + [f"({hidden} more lines with errors)"] * (hidden > 0))


def user_cache() -> Path:
    """The user's directory for what may be deleted at any time."""
    base = os.environ.get("XDG_CACHE_HOME")
    return (Path(base) if base else Path.home() / ".cache") / "kernelevolve"


def build_directory() -> Path:
    """Where builds are kept: KERNELEVOLVE_BUILD_DIR, which the judge sets per candidate, else the user's cache.

    It is made if need be, for this user alone: what lies in it is loaded and run. Raises KernelEvolveError if it
    cannot be written.
    """
    given = os.environ.get(BUILD_DIRECTORY_VARIABLE)
    path = Path(given) if given else user_cache() / "build"
    try:
        path.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        raise KernelEvolveError(
            f"builds cannot be kept: {error.strerror}", path=path,
            fix=f"set {BUILD_DIRECTORY_VARIABLE} to a directory that you can write",
        ) from None  # fmt: skip
    return path


def built_artifacts() -> list[Path]:
    """What this process has built or taken from the cache, in order."""
    return list(_built)


def cached_build(inputs: object, suffix: str, make: Callable[[Path], str]) -> Path:
    """The artifact of these inputs (any JSON value) as a file whose name ends in ``suffix``.

    If it is not there yet, ``make(path)`` has to write it to ``path``, alone in a directory that is deleted afterwards,
    and to return what the compiler said; see ``build_log``. Safe for several processes at once: both files appear
    under their names complete, the log first.
    """
    directory = build_directory()
    path = directory / f"{digest_json(inputs)[:32]}{suffix}"
    if not path.exists():
        with tempfile.TemporaryDirectory(prefix=".building-", dir=directory) as scratch:
            made = Path(scratch) / f"kernel{suffix}"
            log = Path(scratch) / "log"
            log.write_text(make(made))
            log.replace(_log_path(path))
            made.replace(path)
    _built[path] = None
    return path


def build_log(artifact: Path) -> str:
    """What the compiler said when it made this artifact: warnings and reports."""
    return _log_path(artifact).read_text()


def _log_path(artifact: Path) -> Path:
    return artifact.with_name(artifact.name + ".log")


def run_compiler(command: Sequence[str], directory: Path | None = None) -> str:
    """Run a compiler to its end in ``directory``; what it said.

    Raises BuildError if it refuses the source, MissingTarget if there is no such program.
    """
    try:
        finished = subprocess.run(
            command, cwd=directory, capture_output=True, text=True, errors="replace", check=False,
            stdin=subprocess.DEVNULL,
        )  # fmt: skip
    except OSError as error:
        raise MissingTarget(f"the compiler {command[0]} cannot be run: {error.strerror}", fix="install it") from None
    log = finished.stdout + finished.stderr
    if finished.returncode != 0:
        raise BuildError(log if log.strip() else f"error: {command[0]} ended with {finished.returncode}", command)
    return log
