"""The one exception a user may see: a sentence that says what is wrong, where, and how to mend it."""

from __future__ import annotations

from pathlib import Path


class KernelEvolveError(Exception):
    """Bad input or a missing piece of the machine; the command line prints it as one sentence and exits with code 2.

    ``problem`` says what is wrong, ``fix`` how to mend it; ``path`` and ``line`` name the place when there is one.
    """

    def __init__(self, problem: str, *, fix: str = "", path: Path | str | None = None, line: int | None = None) -> None:
        self.problem = problem
        self.fix = fix
        self.path = Path(path) if path is not None else None
        self.line = line
        super().__init__(self.sentence)

    @property
    def sentence(self) -> str:
        """``file:line: what is wrong; how to mend it`` on one line."""
        where = ""
        if self.path is not None:
            where = f"{self.path}:{self.line}: " if self.line is not None else f"{self.path}: "
        fix = f"; {self.fix}" if self.fix else ""
        return " ".join(f"{where}{self.problem}{fix}".split())


class InvalidProblem(KernelEvolveError):
    """The problem file, or the module and inputs given in Python, cannot be used."""


class InvalidCandidate(KernelEvolveError):
    """A candidate file cannot be read as one (it is judged ``build_error`` only if it can be read)."""


class MissingTarget(KernelEvolveError):
    """This machine lacks the device, compiler or library that the request needs."""


class InvalidRequest(KernelEvolveError):
    """An option or a run identifier does not fit."""
