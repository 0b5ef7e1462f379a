"""Run and session: what a caller gets, and what is refused before anything is begun."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from doubles import PROBLEM, ScriptedJudge, engine, new_run, search, settings

import kernelevolve
from kernelevolve.errors import InvalidCandidate, InvalidProblem, InvalidRequest
from kernelevolve.judge.verdict import VerdictKind
from kernelevolve.run import Run
from kernelevolve.session import read_candidate
from kernelevolve.store import Store


def test_the_summary_is_the_document_that_json_prints(tmp_path: Path) -> None:
    store, record, _ = search(tmp_path, settings(20))
    document = json.loads(Run(store, record.id).summary().model_dump_json())
    assert (document["run"], document["problem"], document["target"]) == (record.id, "scripted", "cpu")
    assert document["evaluations"] == sum(document["verdicts"].values()) == len(list(store.nodes(record.id)))
    assert document["trials"] == store.count_trials(record.id)
    assert document["reason"].startswith("18 of 20 evaluations are used")
    assert document["baselines"] == {"eager": 1e-3, "compile": None}
    assert document["control"]["drafts"] == sum(s.node.operator == "draft" for s in store.nodes(record.id))
    best = document["best"]
    assert (best["verdict"], best["language"], best["path"]) == ("correct", "cpp", None)
    assert best["speedup"]["eager"].keys() == {"value", "low", "high", "clock"}
    assert best["seconds"] == pytest.approx(best["baseline_seconds"]["eager"] / best["speedup"]["eager"]["value"])


def test_a_run_can_be_looked_at_before_it_has_nodes(tmp_path: Path) -> None:
    store = Store(tmp_path)
    summary = Run(store, new_run(store, settings(5)).id).summary()
    assert (summary.evaluations, summary.best, summary.seconds, summary.verdicts) == (0, None, 0.0, {})


def test_a_node_that_a_promotion_refuted_is_not_the_best(tmp_path: Path) -> None:
    judge = ScriptedJudge()
    store, record, _ = search(tmp_path, settings(20), judge)
    run = Run(store, record.id)
    assert run.best is not None
    refuted = run.best.node
    verdict = run.best.verdict.model_copy(update={"kind": VerdictKind.WRONG, "measurement": None})
    store.append_verdict(run.id, refuted.id, verdict)
    assert run.best is not None
    assert run.best.node.id != refuted.id


def test_trials_and_verdicts_of_a_node_can_be_read(tmp_path: Path) -> None:
    store, record, _ = search(tmp_path, settings(10))
    run = Run(store, record.id)
    for stored in run.history():
        assert run.candidate(stored.node.id).id == stored.node.candidate_id
        assert run.verdicts(stored.node.id)[0].candidate_id == stored.node.candidate_id
    assert sum(len(run.trials(node.id)) for node in run.nodes()) == run.summary().trials
    assert not run.interrupted


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ({"evaluations": 0}, "not enough to search"),
        ({"minutes": 0}, "not enough to search"),
        ({"policy": "no-such"}, "no selection policy named 'no-such'"),
        ({"operators": ["no-such"]}, "no operator named 'no-such'"),
        ({"target": "no-such"}, "no target named 'no-such'"),
        ({"example_inputs": (1,)}, "makes its own inputs"),
    ],
)
def test_a_wrong_request_is_refused_before_a_run_exists(
    tmp_path: Path, arguments: dict[str, object], sentence: str
) -> None:
    given = {"target": "cpu", "out": tmp_path / "runs", **arguments}
    with pytest.raises(InvalidRequest, match=sentence):
        kernelevolve.optimize("ranking/rmsnorm_residual", **given)  # type: ignore[arg-type]
    if (tmp_path / "runs").exists():
        assert Store(tmp_path / "runs").runs() == []


def test_a_module_needs_inputs(tmp_path: Path) -> None:
    with pytest.raises(InvalidRequest, match="needs example inputs"):
        kernelevolve.optimize(abs, target="cpu", out=tmp_path)


def test_a_problem_that_cannot_be_judged_is_refused_with_the_reason(tmp_path: Path) -> None:
    constant = """
import torch
from torch import nn


class Model(nn.Module):
    def forward(self, x):
        return torch.ones_like(x) + 0.0 * x


def get_inputs():
    return [torch.randn(64, 64)]
"""
    (tmp_path / "constant.py").write_text(constant)
    with pytest.raises(InvalidProblem, match=r"constant\.py: no workload of constant tells a right result"):
        kernelevolve.optimize(tmp_path / "constant.py", target="cpu", out=tmp_path / "runs")
    assert Store(tmp_path / "runs").runs() == []


def test_a_run_of_another_device_is_not_continued_here(tmp_path: Path) -> None:
    store = Store(tmp_path)
    record = store.create_run(PROBLEM, "cpu", device="another chip", settings=settings(5).model_dump(mode="json"))
    with pytest.raises(kernelevolve.KernelEvolveError, match="another chip"):
        kernelevolve.resume(record.id, out=tmp_path)


def test_a_candidate_file_is_read_with_its_language_and_numbers(tmp_path: Path) -> None:
    text = """
from kernelevolve.candidates.space import Choice, TunableSpace
from kernelevolve.languages import cpp

TUNABLES = TunableSpace({"BLOCK": Choice(16, 32)})
CONFIG = {"BLOCK": 32}
MODULE = cpp.build("void f() {}")


class ModelNew:
    pass
"""
    (tmp_path / "candidate.py").write_text(text)
    candidate = read_candidate(tmp_path / "candidate.py")
    assert (candidate.language, candidate.config) == ("cpp", {"BLOCK": 32})


@pytest.mark.parametrize(("name", "text"), [("missing.py", None), ("broken.py", "class ModelNew(:\n")])
def test_a_candidate_that_cannot_be_read_is_named(tmp_path: Path, name: str, text: str | None) -> None:
    if text is not None:
        (tmp_path / name).write_text(text)
    with pytest.raises(InvalidCandidate, match=name):
        read_candidate(tmp_path / name)


def test_the_same_run_twice_is_one_search(tmp_path: Path) -> None:
    store, record, _ = search(tmp_path, settings(5))
    before = list(store.nodes(record.id))
    engine(store, store.run(record.id), settings(5), ScriptedJudge()).run()
    assert list(store.nodes(record.id)) == before
