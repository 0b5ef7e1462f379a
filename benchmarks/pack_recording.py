"""Pack one run of a workspace as a recording for the tests: a small file that replays on any machine.

    python benchmarks/pack_recording.py last rmsnorm-residual-cpu --out runs [--into tests/recordings]

Packed is the run's part of the workspace: its database rows (settings, nodes, verdicts with their samples, trials, and
what models were asked and answered) and the sources that they name. Left out is what can be made from these: kernel,
certificate, report; and everything that the judge built. ``tar -xJf`` gives back a workspace directory for ``--out``:
``kernelevolve show``, ``replay`` and ``export`` read it.

What was packed is unpacked and replayed before it is kept: a recording that would differ here is refused.
"""

from __future__ import annotations

import argparse
import json
import lzma
import re
import shutil
import sqlite3
import sys
import tarfile
import tempfile
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

from kernelevolve.cli.recording import replay
from kernelevolve.errors import InvalidRequest, KernelEvolveError
from kernelevolve.run import Run
from kernelevolve.search.settings import SearchSettings
from kernelevolve.store.blobs import BlobStore
from kernelevolve.store.schema import METADATA, RUNS, VERSION
from kernelevolve.store.store import DATABASE_NAME
from kernelevolve.workspace import open_run

LARGEST = 1_000_000
"""Bytes of a packed recording: it is copied by everybody who clones the repository."""
_NAME = re.compile(r"[a-z0-9][a-z0-9.-]*")


def pack(run: Run, into: Path) -> None:
    """Write the recording of a run to the file ``into``. Raises InvalidRequest if it would not replay elsewhere."""
    record = run.record
    settings = SearchSettings.model_validate(record.settings)
    if record.problem.payload or settings.recording is not None:
        raise InvalidRequest(
            f"run {run.id} reads files by their place on this machine", fix="record a problem that is one file"
        )
    with tempfile.TemporaryDirectory(prefix="kernelevolve-pack-") as scratch:
        packed, unpacked = Path(scratch) / "packed", Path(scratch) / "unpacked"
        packed.mkdir()
        _copy_rows(run, packed / DATABASE_NAME)
        for digest in _sources(run, settings):
            BlobStore(packed / "blobs").put(run.store.blobs.get(digest))
        archive = Path(scratch) / "recording"
        _write_archive(packed, archive)
        if archive.stat().st_size > LARGEST:
            raise InvalidRequest(
                f"run {run.id} takes {archive.stat().st_size:,} bytes, {LARGEST:,} are allowed",
                fix="record a shorter run",
            )
        with tarfile.open(archive) as opened:
            opened.extractall(unpacked, filter="data")
        if replay(run.id, unpacked) != 0:
            raise InvalidRequest(f"run {run.id} does not replay to the same graph", fix="pack a told run")
        into.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(archive, into)


def _copy_rows(run: Run, database: Path) -> None:
    """A database with the rows of this run alone, and no path of this machine in them."""
    source = run.store.workspace / DATABASE_NAME
    if not source.is_file():
        raise InvalidRequest(f"the records of run {run.id} are not in a file", fix="pack a run of a SQLite workspace")
    with closing(sqlite3.connect(source)) as connection:
        connection.execute("VACUUM INTO ?", (str(database),))
    problem = run.problem.model_copy(update={"path": None})
    with closing(sqlite3.connect(database, isolation_level=None)) as connection:
        for table in reversed(METADATA.sorted_tables):
            if table is not VERSION:
                column = "id" if table is RUNS else "run"
                connection.execute(f"DELETE FROM {table.name} WHERE {column} != ?", (run.id,))
        connection.execute("UPDATE runs SET problem = ?", (problem.model_dump_json(),))
        connection.execute("PRAGMA journal_mode=DELETE")
        connection.execute("VACUUM")


def _sources(run: Run, settings: SearchSettings) -> Iterator[str]:
    """Digests of the blobs that the rows name."""
    with closing(sqlite3.connect(run.store.workspace / DATABASE_NAME)) as connection:
        for columns, table in (("source", "nodes"), ("source", "conclusions"), ("request, response", "exchanges")):
            for row in connection.execute(f"SELECT {columns} FROM {table} WHERE run = ?", (run.id,)):
                yield from filter(None, row)
    yield from (reference.digest for reference in (*settings.skills, *settings.transfers))


def _write_archive(directory: Path, archive: Path) -> None:
    """The files in the order of their names, without owners and times: the same run packs to the same bytes."""
    with (
        lzma.open(archive, "wb", preset=9 | lzma.PRESET_EXTREME) as compressed,
        tarfile.open(fileobj=compressed, mode="w", format=tarfile.GNU_FORMAT) as opened,
    ):
        for path in sorted(path for path in directory.rglob("*") if path.is_file()):
            entry = tarfile.TarInfo(path.relative_to(directory).as_posix())
            entry.size, entry.mode = path.stat().st_size, 0o644
            with path.open("rb") as file:
                opened.addfile(entry, file)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("run")
    parser.add_argument("name", help="of the recording, such as rmsnorm-residual-cpu")
    parser.add_argument("--out", type=Path, default=Path("runs"), help="the workspace")
    parser.add_argument("--into", type=Path, default=Path("tests/recordings"))
    given = parser.parse_args()
    if not _NAME.fullmatch(given.name):
        raise InvalidRequest(f"{given.name!r} is no name for a recording", fix="use small letters, digits and hyphens")
    run, into = open_run(given.run, out=given.out), given.into / f"{given.name}.tar.xz"
    pack(run, into)
    print(json.dumps({"run": run.id, "packed": str(into), "bytes": into.stat().st_size}))


if __name__ == "__main__":
    try:
        main()
    except KernelEvolveError as error:
        sys.exit(error.sentence)
