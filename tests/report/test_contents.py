"""Contents: what a run is told from agrees with what is stored."""

from __future__ import annotations

import math
from pathlib import Path

import pytest

from kernelevolve.judge.verdict import Effort, Roofline, Stage, Verdict, VerdictKind
from kernelevolve.report.claim import control_sentence
from kernelevolve.report.contents import Contents, collect
from kernelevolve.report.explain import explain
from kernelevolve.report.knobs import knobs
from kernelevolve.run import Run
from stored_runs import make_run


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    return make_run(tmp_path_factory.mktemp("run"), 80)


@pytest.fixture(scope="module")
def contents(run: Run) -> Contents:
    return collect(run)


def test_every_node_is_told_with_its_weightiest_verdict(run: Run, contents: Contents) -> None:
    assert [e.node for e in contents.entries] == list(run.nodes())
    assert [e.node.id for e in contents.entries if e.promoted] == [
        contents.summary.best.node if contents.summary.best else -1
    ]
    for entry in contents.entries:
        assert entry.verdict in run.verdicts(entry.node.id)


def test_failures_are_grouped_by_what_they_say_not_by_their_numbers(contents: Contents) -> None:
    failed = [e for e in contents.entries if not e.verdict.correct]
    assert sorted(n for f in contents.failures for n in f.nodes) == [e.node.id for e in failed]
    keys = [(f.kind, f.stage, f.reason.partition(": ")[2]) for f in contents.failures]
    assert len(keys) == len(set(keys))  # 'element 3 is off' and 'element 7 is off' are one reason
    counts = [len(f.nodes) for f in contents.failures]
    assert counts == sorted(counts, reverse=True)


def test_a_strict_test_that_refutes_a_node_counts_as_a_failure(tmp_path: Path) -> None:
    run = make_run(tmp_path, 12, promoted=False)
    best = run.best
    assert best is not None
    refuted = Verdict(
        candidate_id=best.candidate.id, kind=VerdictKind.WRONG, stage=Stage.PROMOTION, effort=Effort.PROMOTION,
        reason="wrong on held-out sizes",
    )  # fmt: skip
    run.store.append_verdict(run.id, best.node.id, refuted)
    contents = collect(run)
    assert contents.best is not None
    assert contents.best.node.id != best.node.id
    assert any(f.nodes == (best.node.id,) and f.stage is Stage.PROMOTION for f in contents.failures)


def test_records_only_ever_improve(contents: Contents) -> None:
    levels = [e.node.fitness for e in contents.records]
    assert levels == sorted(set(levels))
    assert levels[-1] == max(e.node.fitness for e in contents.entries)


def test_the_control_is_the_best_of_the_drafts(contents: Contents) -> None:
    drafts = [e.node.fitness for e in contents.entries if not e.node.parents]
    assert contents.control.drafts == len(drafts)
    assert contents.control.best_draft == max(drafts)
    sentence = control_sentence(contents.control, len(contents.entries))
    assert f"{math.exp(max(drafts)):.2f}× the best baseline (measured)" in sentence
    assert "(estimated)" in sentence


def test_knobs_give_the_best_time_of_each_setting(contents: Contents) -> None:
    found = {k.sensitivity.name: k for k in knobs(contents)}
    assert set(found) == {"BLOCK", "WARPS"}
    for name, knob in found.items():
        for setting in knob.settings:
            times = [s for c, s in contents.best_trials if c[name] == setting.value and s is not None]
            assert setting.seconds == min(times)
        assert 4096 not in [s.value for s in knob.settings]  # it failed at every try
    ratios = [k.sensitivity.ratio for k in knobs(contents)]
    assert ratios == sorted(ratios, reverse=True)


def test_workloads_with_the_same_work_share_a_sentence(contents: Contents) -> None:
    assert contents.best is not None
    best = contents.best
    rooflines = tuple(
        Roofline(workload=w, bytes=b, flops=1e6, floor_seconds=1e-3, bound="memory", fraction=f)
        for w, b, f in (("as-written", 1e6, 0.5), ("shifted", 1e6, 0.52), ("large", 8e6, 0.9))
    )
    from dataclasses import replace

    told = explain(replace(best, verdict=best.verdict.model_copy(update={"rooflines": rooflines})))
    physics = [s for s in told if "must" in s]
    assert len(physics) == 2
    assert "Workloads as-written, shifted must each move at least 1.00 MB" in physics[0]
    assert "50 % to 52 % of it" in physics[0]
    assert all("estimated floor" in s for s in physics)
