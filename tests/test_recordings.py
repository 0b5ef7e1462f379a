"""Recorded runs, some made on devices that this machine lacks: they replay to the same graph and can be read.

They are packed by ``benchmarks/pack_recording.py``; verdicts and timings are those of the device they were made on.
"""

from __future__ import annotations

import json
import tarfile
from pathlib import Path

import pytest

from kernelevolve import cli
from kernelevolve.judge.verdict import Effort
from kernelevolve.run import Run
from kernelevolve.store import Store
from kernelevolve.workspace import open_run

RECORDINGS = sorted((Path(__file__).parent / "recordings").glob("*.tar.xz"))
LARGEST = 1_000_000
"""Bytes of one recording."""


def test_there_are_recordings_and_they_are_small() -> None:
    assert RECORDINGS
    assert {path.name: path.stat().st_size for path in RECORDINGS if path.stat().st_size > LARGEST} == {}


@pytest.fixture(params=RECORDINGS, ids=lambda path: path.name.removesuffix(".tar.xz"))
def recorded(request: pytest.FixtureRequest, tmp_path: Path) -> Run:
    """One recorded run in a workspace of its own."""
    with tarfile.open(request.param) as archive:
        archive.extractall(tmp_path, filter="data")
    return open_run("last", out=tmp_path)


def read(capsys: pytest.CaptureFixture[str], run: Run, *words: str) -> str:
    """What a command prints about a run."""
    assert cli.run([*words, "--out", str(run.store.workspace)]) == 0
    return capsys.readouterr().out


def test_it_replays_to_the_same_graph(recorded: Run, capsys: pytest.CaptureFixture[str]) -> None:
    """Node for node: identifiers of candidates, parents, operators, verdicts, fitness to the last bit, structures."""
    replayed = json.loads(read(capsys, recorded, "replay", recorded.id, "--json"))
    nodes = list(recorded.nodes())
    assert nodes
    assert replayed == {"run": recorded.id, "nodes": len(nodes), "difference": None}


def test_a_changed_recording_is_noticed(recorded: Run, capsys: pytest.CaptureFixture[str]) -> None:
    """A replay that compares nothing would pass the test above as well."""
    from sqlalchemy import create_engine, update

    from kernelevolve.store.schema import NODES
    from kernelevolve.store.store import DATABASE_NAME

    last = list(recorded.nodes())[-1]
    engine = create_engine(f"sqlite:///{recorded.store.workspace / DATABASE_NAME}")
    with engine.begin() as connection:
        connection.execute(update(NODES).where(NODES.c.id == last.id).values(structure="0" * 64))
    engine.dispose()
    assert cli.run(["replay", recorded.id, "--out", str(recorded.store.workspace)]) == 1
    assert f"node {last.id}: its structure is" in capsys.readouterr().out


def test_what_was_judged_can_be_read(recorded: Run, capsys: pytest.CaptureFixture[str]) -> None:
    """Sources, verdicts and raw samples of every node, and the outline of the whole."""
    shown = json.loads(read(capsys, recorded, "show", recorded.id, "--json"))
    assert [node["id"] for node in shown["nodes"]] == [node.id for node in recorded.nodes()]
    for node in recorded.nodes():
        assert "ModelNew" in recorded.candidate(node.id).source
        verdicts = recorded.verdicts(node.id)
        assert verdicts[0].kind is node.kind
        for verdict in filter(lambda verdict: verdict.correct, verdicts):
            assert verdict.measurement is not None and verdict.measurement.samples
        assert f"{node.id}" in read(capsys, recorded, "show", recorded.id, "--node", str(node.id))
    assert recorded.problem.name in read(capsys, recorded, "show", recorded.id)
    assert recorded.id in read(capsys, recorded, "list")


def test_its_report_can_be_written(recorded: Run, tmp_path: Path) -> None:
    from kernelevolve.report.html import write_report

    write_report(recorded, tmp_path / "report.html")
    assert recorded.problem.name in (tmp_path / "report.html").read_text()


def test_it_is_training_data(recorded: Run, capsys: pytest.CaptureFixture[str]) -> None:
    lines = [json.loads(line) for line in read(capsys, recorded, "export", recorded.id, "--format", "sft").splitlines()]
    assert [line["node"] for line in lines] == [node.id for node in recorded.nodes() if node.correct]
    assert all("ModelNew" in line["completion"][0]["content"] for line in lines)
    for form in ("dpo", "grpo"):
        for line in read(capsys, recorded, "export", recorded.id, "--format", form).splitlines():
            assert json.loads(line)["run"] == recorded.id


def test_the_recording_of_a_told_run_on_a_cpu(tmp_path: Path) -> None:
    """Failures of two kinds, a crossover, numbers that the finale found, and promotions are in it."""
    with tarfile.open(Path(__file__).parent / "recordings" / "rmsnorm-residual-cpu.tar.xz") as archive:
        archive.extractall(tmp_path, filter="data")
    store = Store(tmp_path)
    run = store.runs()[0].id
    nodes = [stored.node for stored in store.nodes(run)]
    assert {node.kind.value for node in nodes} == {"correct", "wrong", "build_error"}
    assert {node.operator for node in nodes} == {"agent", "tune"}
    assert {len(node.parents) for node in nodes} == {0, 1, 2}
    assert any(verdict.effort is Effort.PROMOTION for node in nodes for verdict in store.verdicts(run, node.id))
    assert store.run(run).problem.path is None
