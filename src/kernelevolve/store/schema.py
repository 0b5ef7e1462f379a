"""The tables of a workspace, and how to connect to them."""

from __future__ import annotations

from typing import Any

import sqlalchemy as sa
from sqlalchemy.exc import DatabaseError, IntegrityError
from sqlalchemy.schema import CreateIndex, CreateTable

from kernelevolve.errors import KernelEvolveError

SCHEMA_VERSION = 2
"""Raised by every change of the tables; a workspace of another version is refused, never misread."""

METADATA = sa.MetaData()

VERSION = sa.Table("schema_version", METADATA, sa.Column("version", sa.Integer, primary_key=True, autoincrement=False))

RUNS = sa.Table(
    "runs",
    METADATA,
    sa.Column("id", sa.String(80), primary_key=True),
    sa.Column("created", sa.String(32), nullable=False, index=True),
    sa.Column("problem", sa.Text, nullable=False),
    sa.Column("target", sa.String(32), nullable=False),
    sa.Column("device", sa.Text, nullable=False),
    sa.Column("settings", sa.Text, nullable=False),
    sa.Column("status", sa.String(16), nullable=False),
    sa.Column("reason", sa.Text, nullable=False),
    sa.Column("baselines", sa.Text, nullable=False),
    sa.Column("checkpoint", sa.Text, nullable=True),
)

NODES = sa.Table(
    "nodes",
    METADATA,
    sa.Column("run", sa.String(80), primary_key=True),
    sa.Column("id", sa.Integer, primary_key=True, autoincrement=False),
    sa.Column("candidate", sa.String(64), nullable=False, index=True),
    sa.Column("parents", sa.Text, nullable=False),
    sa.Column("operator", sa.String(160), nullable=False),
    sa.Column("kind", sa.String(32), nullable=False),
    sa.Column("fitness", sa.Double, nullable=False),
    sa.Column("structure", sa.String(64), nullable=False),
    sa.Column("depth", sa.Integer, nullable=False),
    sa.Column("niche", sa.Text, nullable=False),
    sa.Column("language", sa.String(32), nullable=False),
    sa.Column("source", sa.String(64), nullable=False),
    sa.Column("config", sa.Text, nullable=False),
    sa.Column("own_structure", sa.String(64), nullable=False),
    sa.Column("artifact", sa.Text, nullable=True),
    sa.Column("proposal", sa.Integer, nullable=True),
    sa.Column("elapsed", sa.Double, nullable=False),
    sa.ForeignKeyConstraint(["run"], ["runs.id"]),
)
"""``structure`` is the node's; ``own_structure`` the key of its own source. They differ where two sources built into
the same artifact: the later node then counts as the earlier program."""

VERDICTS = sa.Table(
    "verdicts",
    METADATA,
    sa.Column("id", sa.Integer, primary_key=True),
    sa.Column("run", sa.String(80), nullable=False),
    sa.Column("node", sa.Integer, nullable=False),
    sa.Column("effort", sa.String(16), nullable=False),
    sa.Column("record", sa.Text, nullable=False),
    sa.ForeignKeyConstraint(["run", "node"], ["nodes.run", "nodes.id"]),
    sa.Index("verdicts_of_node", "run", "node", "effort"),
)

TRIALS = sa.Table(
    "trials",
    METADATA,
    sa.Column("id", sa.Integer, primary_key=True),
    sa.Column("run", sa.String(80), nullable=False),
    sa.Column("node", sa.Integer, nullable=False),
    sa.Column("config", sa.Text, nullable=False),
    sa.Column("seconds", sa.Double, nullable=True),
    sa.ForeignKeyConstraint(["run", "node"], ["nodes.run", "nodes.id"]),
    sa.Index("trials_of_node", "run", "node"),
)

EXCHANGES = sa.Table(
    "exchanges",
    METADATA,
    sa.Column("id", sa.Integer, primary_key=True),
    sa.Column("run", sa.String(80), nullable=False),
    sa.Column("proposal", sa.Integer, nullable=False),
    sa.Column("ordinal", sa.Integer, nullable=False),
    sa.Column("attempt", sa.Integer, nullable=False),
    sa.Column("purpose", sa.String(16), nullable=False),
    sa.Column("model", sa.Text, nullable=False),
    sa.Column("request", sa.String(64), nullable=False),
    sa.Column("response", sa.String(64), nullable=True),
    sa.Column("failure", sa.String(32), nullable=False),
    sa.Column("detail", sa.Text, nullable=False),
    sa.Column("input_tokens", sa.Integer, nullable=False),
    sa.Column("output_tokens", sa.Integer, nullable=False),
    sa.Column("dollars", sa.Double, nullable=False),
    sa.Column("seconds", sa.Double, nullable=False),
    sa.Column("at", sa.String(40), nullable=False),
    sa.ForeignKeyConstraint(["run"], ["runs.id"]),
    sa.Index("exchanges_of_proposal", "run", "proposal"),
)
"""``request`` and ``response`` are blobs."""

CONCLUSIONS = sa.Table(
    "conclusions",
    METADATA,
    sa.Column("run", sa.String(80), primary_key=True),
    sa.Column("proposal", sa.Integer, primary_key=True, autoincrement=False),
    sa.Column("operator", sa.Text, nullable=False),
    sa.Column("parents", sa.Text, nullable=False),
    sa.Column("ending", sa.String(16), nullable=False),
    sa.Column("source", sa.String(64), nullable=True),
    sa.Column("language", sa.String(32), nullable=False),
    sa.Column("config", sa.Text, nullable=False),
    sa.Column("node", sa.Integer, nullable=True),
    sa.Column("reason", sa.Text, nullable=False),
    sa.Column("exhausted", sa.Text, nullable=False),
    sa.Column("tokens", sa.Integer, nullable=False),
    sa.Column("dollars", sa.Double, nullable=False),
    sa.ForeignKeyConstraint(["run"], ["runs.id"]),
)
"""``source`` is a blob; its node, once it was judged, has the number of the question as its ``proposal``."""


def connect(url: str) -> sa.Engine:
    """An engine on a workspace's database, with the tables made if they are not there.

    Raises KernelEvolveError if the database cannot be used or belongs to another version of the tables.
    """
    try:
        engine = sa.create_engine(url)
        if engine.dialect.name == "sqlite":
            sa.event.listen(engine, "connect", _prepare_sqlite)
        _ensure_tables(engine)
    except (DatabaseError, ImportError) as error:
        words, place = str(getattr(error, "orig", None) or error), sa.make_url(url).render_as_string(hide_password=True)
        fix = "name a writable directory, or a database that runs and whose driver is installed"
        raise KernelEvolveError(f"the run database {place} cannot be opened: {words}", fix=fix) from None
    return engine


def _prepare_sqlite(connection: Any, _record: object) -> None:
    """Per connection: readers never block the writer (WAL), and a commit is on the disk when it returns.

    ``synchronous=NORMAL`` would survive a killed process but not a power cut, which could then lose the last nodes.
    A judged candidate costs a second or more and an fsync a few milliseconds: FULL is the price of keeping every one.
    """
    cursor = connection.cursor()
    cursor.execute("PRAGMA busy_timeout=30000")
    cursor.execute("PRAGMA journal_mode=WAL")
    cursor.execute("PRAGMA synchronous=FULL")
    cursor.execute("PRAGMA foreign_keys=ON")
    cursor.close()


def _ensure_tables(engine: sa.Engine) -> None:
    with engine.begin() as connection:
        # IF NOT EXISTS, because two processes may open a new workspace at once.
        for table in METADATA.sorted_tables:
            connection.execute(CreateTable(table, if_not_exists=True))
            for index in sorted(table.indexes, key=lambda index: str(index.name)):
                connection.execute(CreateIndex(index, if_not_exists=True))
    try:
        with engine.begin() as connection:
            empty = connection.execute(sa.select(sa.func.count()).select_from(VERSION)).scalar_one() == 0
            if empty:
                connection.execute(sa.insert(VERSION).values(version=SCHEMA_VERSION))
    except IntegrityError:  # another process wrote the same row first
        pass
    with engine.connect() as connection:
        found = connection.execute(sa.select(sa.func.max(VERSION.c.version))).scalar_one()
    if found != SCHEMA_VERSION:
        raise KernelEvolveError(
            f"the run database has tables of version {found}, this program of version {SCHEMA_VERSION}",
            fix="use another --out directory, or the version of kernelevolve that made it",
        )
