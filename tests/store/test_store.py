"""Store: what is written comes back, in one piece or not at all."""

from __future__ import annotations

import math
import threading
from datetime import datetime
from pathlib import Path

import pytest
import sqlalchemy as sa
from hypothesis import given
from hypothesis import strategies as st
from sqlalchemy.dialects import postgresql
from sqlalchemy.schema import CreateIndex, CreateTable

from kernelevolve.candidates import Candidate
from kernelevolve.errors import InvalidRequest, KernelEvolveError
from kernelevolve.judge.verdict import Clock, Effort, Measurement, OutputError, Samples, Stage, Verdict, VerdictKind
from kernelevolve.problems import Problem
from kernelevolve.search.node import Node
from kernelevolve.store import Checkpoint, RunLock, RunStatus, Store, StoredNode
from kernelevolve.store.names import new_run_id
from kernelevolve.store.schema import METADATA, NODES, VERSION

PROBLEM = Problem(name="rmsnorm", source="class Model: ...")


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store(tmp_path)


def judged(
    number: int, kind: VerdictKind = VerdictKind.CORRECT, **verdict: object
) -> tuple[StoredNode, Candidate, Verdict]:
    candidate = Candidate(source=f"ModelNew = {number}", language="cpp", config={"BLOCK": 64 << number % 3})
    node = Node(number, candidate.id, (number - 1,) if number else (), "mutate", kind, -math.inf, f"s{number}", number)
    found = Verdict(candidate_id=candidate.id, kind=kind, stage=Stage.TIMING, effort=Effort.SCREEN, **verdict)  # type: ignore[arg-type]
    return StoredNode(node, f"own{number}", f"artifact{number}", float(number)), candidate, found


def test_a_node_comes_back_as_it_went_in(store: Store) -> None:
    run = store.create_run(PROBLEM, "cpu", device="a chip", settings={"seed": 3})
    assert store.checkpoint(run.id) is None
    error = OutputError(
        workload="b256", output="0", rms=math.nan, rms_limit=1e-6, max=math.inf, max_limit=1e-5, moved_rms=1.0,
        reference_rms=1e-7, first_index=(0, 3), first_got=math.nan, first_expected=1.0,
    )  # fmt: skip
    samples = Samples(program="candidate", workload="b256", clock=Clock.WALL, method="m", blocks=((1e-3, 2e-3),))
    stored, candidate, verdict = judged(
        0, VerdictKind.WRONG, errors=(error,), measurement=Measurement(samples=(samples,))
    )
    checkpoint = Checkpoint(policy={"visits": [1]}, bandit={"mutate": 0.5}, ledger={"evaluations": 1}, issued=1)
    store.append_node(run.id, stored, candidate, verdict, [({"BLOCK": 64}, 1e-3), ({"BLOCK": 128}, None)], checkpoint)

    assert list(store.nodes(run.id)) == [stored]
    assert store.candidate(run.id, 0) == candidate
    back = store.verdict(run.id, 0)
    assert repr(back) == repr(verdict)  # NaN is not equal to itself, its text is
    assert store.trials(run.id, 0) == [({"BLOCK": 64}, 1e-3), ({"BLOCK": 128}, None)]
    assert store.checkpoint(run.id) == checkpoint
    assert store.run(run.id) == run


def test_everything_is_there_for_another_process(tmp_path: Path) -> None:
    first = Store(tmp_path)
    run = first.create_run(PROBLEM, "cpu")
    for number in range(5):
        first.append_node(run.id, *judged(number))
    second = Store(tmp_path)
    assert [s.node.id for s in second.nodes(run.id)] == [0, 1, 2, 3, 4]


def test_a_second_node_of_one_number_is_refused_and_leaves_nothing(store: Store) -> None:
    run = store.create_run(PROBLEM, "cpu")
    store.append_node(run.id, *judged(0))
    with pytest.raises(KernelEvolveError, match="already has a node 0"):
        store.append_node(run.id, *judged(0), trials=[({}, 1.0)])
    assert len(store.verdicts(run.id, 0)) == 1
    assert store.count_trials(run.id) == 0


def test_a_failed_write_leaves_no_half_of_a_node(store: Store) -> None:
    run = store.create_run(PROBLEM, "cpu")
    with pytest.raises((KernelEvolveError, sa.exc.StatementError)):
        store.append_node(run.id, *judged(0), trials=[({}, "not a number")])  # type: ignore[list-item]
    assert list(store.nodes(run.id)) == []
    assert store.verdicts(run.id, 0) == []


def test_later_verdicts_do_not_replace_earlier_ones(store: Store) -> None:
    run = store.create_run(PROBLEM, "cpu")
    stored, candidate, screen = judged(0)
    store.append_node(run.id, stored, candidate, screen)
    promotion = screen.model_copy(update={"effort": Effort.PROMOTION, "stage": Stage.PROMOTION})
    store.append_verdict(run.id, 0, promotion)
    assert store.verdicts(run.id, 0) == [screen, promotion]
    assert store.verdict(run.id, 0) == screen
    assert store.promotions(run.id) == {0: promotion}


def test_runs_are_found_by_a_piece_of_their_name(store: Store) -> None:
    one = store.create_run(PROBLEM, "cpu")
    two = store.create_run(Problem(name="Softmax (masked)!", source="x"), "cpu")
    assert two.id.split("-")[1] == "softmax_masked"
    assert store.find_run(two.id[-4:]).id == two.id
    assert store.find_run(one.id[:-2]).id == one.id
    assert {r.id for r in store.runs()} == {one.id, two.id}
    with pytest.raises(InvalidRequest, match="fits 2 runs"):
        store.find_run(one.id[:4])
    with pytest.raises(InvalidRequest, match="no run 'nothing'"):
        store.find_run("nothing")


def test_status_and_reason_are_kept(store: Store) -> None:
    run = store.create_run(PROBLEM, "cpu")
    store.set_baselines(run.id, {"eager": 1e-3, "compile": None})
    store.set_status(run.id, RunStatus.FINISHED, "60 evaluations")
    found = store.run(run.id)
    assert (found.status, found.reason, found.baselines) == (
        RunStatus.FINISHED, "60 evaluations", {"eager": 1e-3, "compile": None},
    )  # fmt: skip


def test_the_files_a_problem_loads_are_copied(store: Store, tmp_path: Path) -> None:
    payload = tmp_path / "module.pkl"
    payload.write_bytes(b"pickled")
    run = store.create_run(PROBLEM.model_copy(update={"payload": {"d1": payload}}), "cpu")
    payload.unlink()
    assert store.run(run.id).problem.payload["d1"].read_bytes() == b"pickled"


def test_threads_may_write_at_once(store: Store) -> None:
    runs = [store.create_run(PROBLEM, "cpu").id for _ in range(4)]

    def write(run: str) -> None:
        for number in range(20):
            store.append_node(run, *judged(number))

    threads = [threading.Thread(target=write, args=(run,)) for run in runs]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for run in runs:
        assert [s.node.id for s in store.nodes(run)] == list(range(20))


def test_a_database_of_another_version_is_refused(store: Store, tmp_path: Path) -> None:
    with store._engine.begin() as connection:
        connection.execute(sa.update(VERSION).values(version=99))
    with pytest.raises(KernelEvolveError, match="version 99"):
        Store(tmp_path)


def test_a_file_that_is_no_database_gives_a_sentence(tmp_path: Path) -> None:
    (tmp_path / "kernelevolve.db").write_text("not a database, but long enough to be read as one" * 100)
    with pytest.raises(KernelEvolveError, match="cannot be opened"):
        Store(tmp_path)


def test_the_write_ahead_log_is_on_and_commits_are_synchronous(store: Store) -> None:
    with store._engine.connect() as connection:
        assert connection.exec_driver_sql("PRAGMA journal_mode").scalar() == "wal"
        assert connection.exec_driver_sql("PRAGMA synchronous").scalar() == 2
        assert connection.exec_driver_sql("PRAGMA foreign_keys").scalar() == 1


def test_the_tables_can_be_made_in_postgresql() -> None:
    dialect = postgresql.dialect()  # type: ignore[no-untyped-call]
    for table in METADATA.sorted_tables:
        assert "CREATE TABLE" in str(CreateTable(table).compile(dialect=dialect))
        for index in table.indexes:
            assert "CREATE INDEX" in str(CreateIndex(index).compile(dialect=dialect))
    assert "DOUBLE PRECISION" in str(CreateTable(NODES).compile(dialect=dialect))


def test_one_search_a_run(tmp_path: Path) -> None:
    first, second = RunLock(tmp_path / "run-1"), RunLock(tmp_path / "run-1")
    first.acquire()
    with pytest.raises(InvalidRequest, match="run-1 is being searched"):
        second.acquire()
    first.release()
    second.acquire()
    second.release()


@given(st.text())
def test_a_run_identifier_is_safe_as_a_directory_name(name: str) -> None:
    run_id = new_run_id(name, datetime(2026, 12, 2))
    assert run_id.startswith("20261202-")
    assert set(run_id) <= set("abcdefghijklmnopqrstuvwxyz0123456789_-")
    assert len(run_id) <= 80
