"""Store: every run of a workspace, its nodes, verdicts and trials. A node insert is a checkpoint."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from sys import intern
from typing import Any, TypeAlias

from sqlalchemy import Connection, Row, Select, func, insert, select, update
from sqlalchemy.exc import IntegrityError, OperationalError

from kernelevolve.candidates import Candidate, Config
from kernelevolve.errors import InvalidRequest, KernelEvolveError
from kernelevolve.judge.verdict import Effort, Verdict, VerdictKind
from kernelevolve.problems import Problem
from kernelevolve.search.node import Node
from kernelevolve.store.blobs import BlobStore
from kernelevolve.store.names import new_run_id
from kernelevolve.store.recordings import Recordings
from kernelevolve.store.records import Checkpoint, RunRecord, RunStatus, StoredNode
from kernelevolve.store.schema import NODES, RUNS, TRIALS, VERDICTS, connect

Timing: TypeAlias = tuple[Config, float | None]
"""A trial: one configuration and its seconds per call; None if it failed."""

DATABASE_NAME = "kernelevolve.db"
_ROWS_AT_ONCE = 2000


class Store:
    """The runs of one workspace directory.

    Records are in ``<workspace>/kernelevolve.db`` (or in the database of ``url``, e.g. ``postgresql+psycopg://…``),
    sources in ``<workspace>/blobs``. Any thread may call any method; writes take turns. Every write is one transaction
    and is on the disk when the method returns. The directory must not be on a network file system: SQLite's
    write-ahead log needs shared memory.
    """

    def __init__(self, workspace: Path | str, url: str | None = None) -> None:
        self.workspace = Path(workspace)
        try:
            self.workspace.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise InvalidRequest(
                f"the output directory cannot be made: {error.strerror}",
                path=self.workspace,
                fix="choose another --out",
            ) from None
        self.blobs = BlobStore(self.workspace / "blobs")
        self._engine = connect(url or f"sqlite:///{self.workspace / DATABASE_NAME}")
        self._writing = threading.Lock()
        self.recordings = Recordings(self._engine, self.blobs, self._transaction)
        """What language models were asked, and what they answered."""

    def close(self) -> None:
        """Close all connections."""
        self._engine.dispose()

    # Runs

    def create_run(
        self, problem: Problem, target: str, *, device: str = "", settings: Mapping[str, Any] | None = None
    ) -> RunRecord:
        """A new, empty run. Files that the problem's source loads are copied, so that the run stands on its own."""
        payload = {digest: self._keep(path) for digest, path in problem.payload.items()}
        problem = problem.model_copy(update={"payload": payload})
        now = datetime.now(UTC)
        for _ in range(20):
            record = RunRecord(
                id=new_run_id(problem.name, now), created=now, problem=problem, target=target, device=device,
                settings=dict(settings or {}),
            )  # fmt: skip
            try:
                with self._transaction() as connection:
                    connection.execute(insert(RUNS).values(_run_row(record)))
                return record
            except IntegrityError:  # the same four hexadecimal digits on the same day
                continue
        raise KernelEvolveError("no free run identifier was found", fix="use another --out directory")

    def run(self, run_id: str) -> RunRecord:
        """The run of exactly that identifier; InvalidRequest if there is none."""
        return self.find_run(run_id, exact=True)

    def runs(self) -> list[RunRecord]:
        """All runs, newest first."""
        with self._engine.connect() as connection:
            rows = connection.execute(select(RUNS).order_by(RUNS.c.created.desc(), RUNS.c.id)).all()
        return [_run_record(row) for row in rows]

    def find_run(self, name: str, *, exact: bool = False) -> RunRecord:
        """The run whose identifier is, or alone begins or ends with, ``name``; InvalidRequest if none or several do."""
        with self._engine.connect() as connection:
            ids = connection.execute(select(RUNS.c.id).order_by(RUNS.c.created)).scalars().all()
            found = [i for i in ids if i == name]
            if not found and name and not exact:
                found = [i for i in ids if i.startswith(name) or i.endswith(name)]
            if len(found) == 1:
                return _run_record(connection.execute(select(RUNS).where(RUNS.c.id == found[0])).one())
        if found:
            raise InvalidRequest(
                f"{name!r} fits {len(found)} runs", fix=f"write more of one of: {', '.join(found[-5:])}"
            )
        known = f"use one of: {', '.join(ids[-5:])}" if ids else "start one with: kernelevolve optimize problem.py"
        raise InvalidRequest(f"there is no run {name!r} in {self.workspace}", fix=known)

    def set_baselines(self, run_id: str, baselines: Mapping[str, float | None]) -> None:
        """Keep the baselines' seconds per call."""
        self._update_run(run_id, baselines=json.dumps(dict(baselines)))

    def set_settings(self, run_id: str, settings: Mapping[str, Any]) -> None:
        """Replace the settings, when a run is continued with a larger budget."""
        self._update_run(run_id, settings=json.dumps(dict(settings)))

    def set_status(
        self, run_id: str, status: RunStatus, reason: str = "", checkpoint: Checkpoint | None = None
    ) -> None:
        """Say where the run stands."""
        values = {"status": status.value, "reason": reason}
        if checkpoint is not None:
            values["checkpoint"] = checkpoint.model_dump_json()
        self._update_run(run_id, **values)

    def checkpoint(self, run_id: str) -> Checkpoint | None:
        """The latest checkpoint; None before the first."""
        with self._engine.connect() as connection:
            text = connection.execute(select(RUNS.c.checkpoint).where(RUNS.c.id == run_id)).scalar_one()
        return None if text is None else Checkpoint.model_validate_json(text)

    # Nodes

    def append_node(
        self,
        run_id: str,
        stored: StoredNode,
        candidate: Candidate,
        verdict: Verdict,
        trials: Sequence[Timing] = (),
        checkpoint: Checkpoint | None = None,
    ) -> None:
        """Write a node with everything known of it, and the state of the search after it, in one transaction.

        Raises KernelEvolveError if the run already has a node of that number: two searches continue one run.
        """
        node = stored.node
        source = self.blobs.put(candidate.source.encode())
        row = {
            "run": run_id, "id": node.id, "candidate": node.candidate_id, "parents": json.dumps(node.parents),
            "operator": node.operator, "kind": node.kind.value, "fitness": node.fitness, "structure": node.structure,
            "depth": node.depth, "niche": node.niche, "language": candidate.language, "source": source,
            "config": json.dumps(candidate.config), "own_structure": stored.own_structure, "artifact": stored.artifact,
            "elapsed": stored.elapsed, "proposal": stored.proposal,
        }  # fmt: skip
        try:
            with self._transaction() as connection:
                connection.execute(insert(NODES).values(row))
                connection.execute(insert(VERDICTS).values(_verdict_row(run_id, node.id, verdict)))
                if trials:
                    connection.execute(insert(TRIALS), [_trial_row(run_id, node.id, t) for t in trials])
                if checkpoint is not None:
                    _write_checkpoint(connection, run_id, checkpoint)
        except IntegrityError:
            raise KernelEvolveError(
                f"run {run_id} already has a node {node.id}", fix="let only one process search a run"
            ) from None

    def append_verdict(self, run_id: str, node_id: int, verdict: Verdict, checkpoint: Checkpoint | None = None) -> None:
        """Add a later verdict on a stored node: a second look, or a promotion."""
        with self._transaction() as connection:
            connection.execute(insert(VERDICTS).values(_verdict_row(run_id, node_id, verdict)))
            if checkpoint is not None:
                _write_checkpoint(connection, run_id, checkpoint)

    def append_trial(self, run_id: str, node_id: int, trial: Timing) -> None:
        """Add one timing to the numeric search of a stored node."""
        with self._transaction() as connection:
            connection.execute(insert(TRIALS).values(_trial_row(run_id, node_id, trial)))

    def nodes(self, run_id: str) -> Iterator[StoredNode]:
        """All nodes in the order of insertion, read in pieces so that a large run does not fill the memory."""
        c = NODES.c
        query = (
            select(
                c.id, c.candidate, c.parents, c.operator, c.kind, c.fitness, c.structure, c.depth, c.niche,
                c.own_structure, c.artifact, c.elapsed, c.proposal,
            ).where(c.run == run_id).order_by(c.id)
        )  # fmt: skip
        kinds = {kind.value: kind for kind in VerdictKind}
        with self._engine.connect() as connection:
            for row in connection.execution_options(yield_per=_ROWS_AT_ONCE).execute(query):
                (number, candidate, parents, operator, kind, fitness, structure, depth, niche, own, artifact, at,
                 asked) = row  # fmt: skip
                structure = intern(structure)
                node = Node(
                    number, candidate, tuple(json.loads(parents)), intern(operator), kinds[kind], fitness, structure,
                    depth, intern(niche),
                )  # fmt: skip
                yield StoredNode(node, intern(own), artifact, at, asked)

    def candidate(self, run_id: str, node_id: int) -> Candidate:
        """The candidate of a node, with the configuration it was judged with."""
        c = NODES.c
        query = select(c.language, c.source, c.config).where(c.run == run_id, c.id == node_id)
        row = self._one(query, f"run {run_id} has no node {node_id}")
        source = self.blobs.get(row.source).decode()
        return Candidate(source=source, language=row.language, config=json.loads(row.config))

    def verdict(self, run_id: str, node_id: int) -> Verdict:
        """The verdict that a node was inserted with."""
        return self.verdicts(run_id, node_id)[0]

    def verdicts(self, run_id: str, node_id: int) -> list[Verdict]:
        """All verdicts on a node in the order given."""
        c = VERDICTS.c
        query = select(c.record).where(c.run == run_id, c.node == node_id).order_by(c.id)
        with self._engine.connect() as connection:
            return [Verdict.model_validate_json(text) for text in connection.execute(query).scalars()]

    def promotions(self, run_id: str) -> dict[int, Verdict]:
        """Node id -> its latest promotion, for all nodes that were put to one."""
        c = VERDICTS.c
        query = select(c.node, c.record).where(c.run == run_id, c.effort == Effort.PROMOTION.value).order_by(c.id)
        with self._engine.connect() as connection:
            return {node: Verdict.model_validate_json(text) for node, text in connection.execute(query)}

    def trials(self, run_id: str, node_id: int) -> list[Timing]:
        """The timings of a node's numeric search, in order."""
        c = TRIALS.c
        query = select(c.config, c.seconds).where(c.run == run_id, c.node == node_id).order_by(c.id)
        with self._engine.connect() as connection:
            return [(json.loads(config), seconds) for config, seconds in connection.execute(query)]

    def count_trials(self, run_id: str) -> int:
        """Trials of the whole run."""
        with self._engine.connect() as connection:
            return int(connection.execute(select(func.count()).where(TRIALS.c.run == run_id)).scalar_one())

    # Inside

    @contextmanager
    def _transaction(self) -> Iterator[Connection]:
        try:
            with self._writing, self._engine.begin() as connection:
                yield connection
        except OperationalError as error:
            raise KernelEvolveError(
                f"the run database cannot be written: {error.orig}", path=self.workspace,
                fix="free disk space or end the process that holds it, then resume the run",
            ) from None  # fmt: skip

    def _keep(self, path: Path) -> Path:
        return self.blobs.path(self.blobs.put(path.read_bytes()))

    def _update_run(self, run_id: str, **values: str) -> None:
        with self._transaction() as connection:
            connection.execute(update(RUNS).where(RUNS.c.id == run_id).values(**values))

    def _one(self, query: Select[Any], otherwise: str) -> Row[Any]:
        with self._engine.connect() as connection:
            row = connection.execute(query).one_or_none()
        if row is None:
            raise InvalidRequest(otherwise, fix="see the nodes with: kernelevolve show RUN")
        return row


def _run_row(record: RunRecord) -> dict[str, str | None]:
    return {
        "id": record.id, "created": record.created.isoformat(), "problem": record.problem.model_dump_json(),
        "target": record.target, "device": record.device, "settings": json.dumps(record.settings),
        "status": record.status.value, "reason": record.reason, "baselines": json.dumps(record.baselines),
        "checkpoint": None,
    }  # fmt: skip


def _run_record(row: Row[Any]) -> RunRecord:
    return RunRecord(
        id=row.id, created=datetime.fromisoformat(row.created), problem=Problem.model_validate_json(row.problem),
        target=row.target, device=row.device, settings=json.loads(row.settings), status=RunStatus(row.status),
        reason=row.reason, baselines=json.loads(row.baselines),
    )  # fmt: skip


def _verdict_row(run_id: str, node_id: int, verdict: Verdict) -> dict[str, Any]:
    # Not model_dump_json: it writes NaN and infinity as null, and an error that is NaN is what a verdict may be about.
    record = json.dumps(verdict.model_dump(mode="json"))
    return {"run": run_id, "node": node_id, "effort": verdict.effort.value, "record": record}


def _trial_row(run_id: str, node_id: int, trial: Timing) -> dict[str, Any]:
    config, seconds = trial
    return {"run": run_id, "node": node_id, "config": json.dumps(config), "seconds": seconds}


def _write_checkpoint(connection: Connection, run_id: str, checkpoint: Checkpoint) -> None:
    connection.execute(update(RUNS).where(RUNS.c.id == run_id).values(checkpoint=checkpoint.model_dump_json()))
