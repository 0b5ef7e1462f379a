"""Workspaces: directories that hold runs, and how a stored run is found by what the user calls it."""

from __future__ import annotations

import os
from pathlib import Path

from kernelevolve.errors import InvalidRequest
from kernelevolve.run import Run
from kernelevolve.store import Store
from kernelevolve.store.store import DATABASE_NAME

DATABASE_VARIABLE = "KERNELEVOLVE_DATABASE_URL"
"""Environment variable with a SQLAlchemy URL, for a workspace whose records are not in its own SQLite file."""
LAST = "last"


def open_store(out: Path | str) -> Store:
    """The store of a workspace, in its own SQLite file or where ``KERNELEVOLVE_DATABASE_URL`` says; made if missing."""
    return Store(out, os.environ.get(DATABASE_VARIABLE) or None)


def existing_store(out: Path | str) -> Store:
    """The store of a workspace that has one: looking at runs makes no directory. Raises InvalidRequest."""
    if not os.environ.get(DATABASE_VARIABLE) and not (Path(out) / DATABASE_NAME).is_file():
        raise InvalidRequest(
            f"there are no runs in {str(out)!r}",
            fix="name their directory (--out), or start one with: kernelevolve optimize problem.py",
        )
    return open_store(out)


def open_run(run: str, *, out: Path | str = "runs") -> Run:
    """A stored run: by its identifier, an unambiguous beginning or end of it, its directory, or ``last``, the newest.

    A directory names the workspace that it lies in as well; ``out`` does not count then. Raises InvalidRequest if there
    is none, or if several fit.
    """
    directory = Path(run)
    if directory.is_dir() and (directory.parent / DATABASE_NAME).is_file():
        run, out = directory.name, directory.parent
    store = existing_store(out)
    if run != LAST:
        return Run(store, run)
    runs = store.runs()
    if not runs:
        raise InvalidRequest(
            f"there are no runs in {str(out)!r}", fix="start one with: kernelevolve optimize problem.py"
        )
    return Run(store, runs[0].id)
