"""``show``, ``list`` and ``doctor``: what was stored is what is said."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from kernelevolve import cli
from kernelevolve.run import Run
from stored_runs import make_run


@pytest.fixture
def stored(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    monkeypatch.chdir(tmp_path)
    return make_run(tmp_path / "runs", 60)


def said(words: str, capsys: pytest.CaptureFixture[str]) -> str:
    assert cli.run(words.split()) == 0
    return capsys.readouterr().out


def test_show_tells_tree_best_physics_control_and_failures(stored: Run, capsys: pytest.CaptureFixture[str]) -> None:
    text = said("show last", capsys)
    best = stored.best
    assert best is not None
    assert f"★ {best.node.id} " in text
    assert "Faster than every baseline" in text
    assert "could not run" in text  # max-autotune
    assert "estimated floor" in text
    assert "best of" in text
    assert "independent drafts" in text
    assert "What failed, and why" in text
    for kind, count in stored.summary().verdicts.items():
        assert f"{count} {kind.replace('_', ' ')}" in text


@pytest.mark.parametrize("cut", [3, 9, 14])
def test_a_run_is_found_by_a_beginning_of_its_name(stored: Run, cut: int, capsys: pytest.CaptureFixture[str]) -> None:
    assert stored.id in said(f"show {stored.id[:cut]}", capsys)


def test_a_run_is_found_by_its_directory_wherever_that_is(
    stored: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    stored.directory.mkdir(exist_ok=True)
    assert stored.id in said(f"show runs/{stored.id}", capsys)
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    monkeypatch.chdir(elsewhere)
    assert json.loads(said(f"show {tmp_path / 'runs' / stored.id} --json", capsys))["run"] == stored.id


def test_last_is_the_newest_run(stored: Run, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    newer = make_run(tmp_path / "runs", 3, seed=1)
    assert json.loads(said("show last --json", capsys))["run"] == newer.id
    assert [run["run"] for run in json.loads(said("list --json", capsys))["runs"]] == [newer.id, stored.id]
    listed = said("list", capsys)
    assert listed.index(newer.id) < listed.index(stored.id)


def test_the_document_of_show_is_complete(stored: Run, capsys: pytest.CaptureFixture[str]) -> None:
    document = json.loads(said("show --json", capsys))
    summary = stored.summary()
    assert document["verdicts"] == summary.verdicts
    assert len(document["nodes"]) == document["evaluations"] == 60
    best = document["best"]
    assert best["verdict"] == "correct"
    assert set(best["speedup"]["compile"]) == {"value", "low", "high", "clock"}
    assert document["lineage"][-1] == best["node"]
    failed = [node["id"] for node in document["nodes"] if node["verdict"] != "correct"]
    assert sorted(n for failure in document["failures"] for n in failure["nodes"]) == failed
    assert {t["name"] for t in document["tunables"]} == {"BLOCK", "WARPS"}
    assert document["why"]


def test_a_node_is_shown_with_the_judges_words_and_its_source(stored: Run, capsys: pytest.CaptureFixture[str]) -> None:
    failed = next(node for node in stored.nodes() if not node.correct)
    text = said(f"show --node {failed.id}", capsys)
    assert failed.kind.replace("_", " ") in text
    assert "class ModelNew" in text
    document = json.loads(said(f"show --node {failed.id} --json", capsys))
    assert document["source"] == stored.candidate(failed.id).source
    assert document["reason"] == stored.verdicts(failed.id)[-1].reason


def test_a_deep_or_large_run_is_still_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    make_run(tmp_path / "large", 400)
    text = said(f"show --out {tmp_path / 'large'}", capsys)
    assert "★" in text
    assert len(text.splitlines()) < 250


def test_a_run_without_a_correct_kernel_says_so(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    make_run(tmp_path / "none", 0)
    assert "No correct kernel was found" in said(f"show --out {tmp_path / 'none'}", capsys)


def test_doctor_names_what_is_missing_with_the_fix(capsys: pytest.CaptureFixture[str]) -> None:
    code = cli.run(["doctor", "--json"])
    document = json.loads(capsys.readouterr().out)
    assert code == (0 if any(document["targets"].values()) else 1)
    assert {finding["area"] for finding in document["findings"]} >= {"compile", "run", "sandbox"}
    assert cli.run(["doctor"]) == code
    text = capsys.readouterr().out
    for finding in document["findings"]:
        assert finding["name"] in text
        if finding["state"] == "missing" and finding["fix"]:
            assert finding["fix"].split()[0] in text
