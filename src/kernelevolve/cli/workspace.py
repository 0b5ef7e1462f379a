"""Finding a stored run by what the user calls it."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

from kernelevolve.errors import InvalidRequest

if TYPE_CHECKING:
    from kernelevolve.run import Run
    from kernelevolve.store import Store

LAST = "last"
RUN_HELP = "Identifier of a run, an unambiguous beginning of it, or 'last'."


def existing_store(out: Path) -> Store:
    """The store of a workspace that has one; unlike a search, looking at runs makes no directory."""
    from kernelevolve.session import DATABASE_VARIABLE, open_store
    from kernelevolve.store.store import DATABASE_NAME

    if not os.environ.get(DATABASE_VARIABLE) and not (out / DATABASE_NAME).is_file():
        raise InvalidRequest(
            f"there are no runs in {str(out)!r}",
            fix="name their directory with --out, or start one with: kernelevolve optimize problem.py",
        )
    return open_store(out)


def find_run(name: str, out: Path) -> Run:
    """The run of that name; InvalidRequest if there is none, or if several fit."""
    from kernelevolve.run import Run

    store = existing_store(out)
    if name == LAST:
        runs = store.runs()
        if not runs:
            raise InvalidRequest(
                f"there are no runs in {str(out)!r}", fix="start one with: kernelevolve optimize problem.py"
            )
        name = runs[0].id
    return Run(store, name)
