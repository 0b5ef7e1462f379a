"""A run leaves a skill; a later run on a similar problem begins with its kernel, and one on another problem does not."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest
from earlier_runs import SOFTMAX, SQUARES, problem, searched

from kernelevolve import results, session
from kernelevolve.errors import InvalidRequest
from kernelevolve.operators import OPERATORS
from kernelevolve.run import Run
from kernelevolve.search.policies import POLICIES
from kernelevolve.search.replay import replay
from kernelevolve.search.settings import SearchSettings
from kernelevolve.skills.library import load_skills, settings_for, write_skill
from kernelevolve.targets import TARGETS

FIRST, LARGER = problem(SOFTMAX), problem(SOFTMAX, rows=128, columns=256)


def settings_of(run: Run) -> SearchSettings:
    return SearchSettings.model_validate(run.record.settings)


def replayed(run: Run, settings: SearchSettings | None = None) -> str:
    chosen = settings or settings_of(run)
    operators = [OPERATORS.get(name) for name in chosen.operators]
    done = replay(run.store, run.record, chosen, POLICIES.get(chosen.policy), operators, TARGETS.get("cpu"))
    return done.difference


def transferred(run: Run) -> list[str]:
    return [run.candidate(node.id).source for node in run.nodes() if node.operator == "transfer"]


def promoted(run: Run) -> str:
    best = run.best
    assert best is not None and best.promoted
    return best.candidate.source


def test_a_second_run_on_a_similar_problem_proposes_the_first_ones_kernel(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    first = searched(monkeypatch, FIRST, tmp_path, evaluations=10)
    other = searched(monkeypatch, problem(SQUARES), tmp_path)
    second = searched(monkeypatch, LARGER, tmp_path, evaluations=10)

    assert settings_of(first).transfers == () and settings_of(first).skills == ()
    assert "transfer" not in settings_of(first).operators
    assert settings_of(other).transfers == () and transferred(other) == []

    (reference,) = settings_of(second).transfers
    best = first.best
    assert best is not None
    assert (reference.run, reference.node, reference.config) == (first.id, best.node.id, best.candidate.config)
    assert 0.8 < reference.similarity < 1
    assert transferred(second) == [promoted(first)]
    (node,) = (node for node in second.nodes() if node.operator == "transfer")
    assert node.parents == ()
    assert [skill.run for skill in settings_of(second).skills] == [first.id]

    # What comes later, and what becomes of the pages, changes nothing for a stored run.
    searched(monkeypatch, LARGER, tmp_path, seed=5)
    (tmp_path / "skills" / f"{first.id}.md").unlink()
    assert replayed(second) == ""
    # Without the recorded kernel the decisions are others: the replay does look at it.
    assert replayed(second, settings_of(second).model_copy(update={"transfers": ()})) != ""


def test_without_skills_a_run_is_what_it_would_be_in_an_empty_workspace(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    alone = searched(monkeypatch, LARGER, tmp_path / "empty")
    searched(monkeypatch, FIRST, tmp_path / "full")
    refused = searched(monkeypatch, LARGER, tmp_path / "full", skills=False)
    unlike = searched(monkeypatch, problem(SQUARES), tmp_path / "full")
    alone_unlike = searched(monkeypatch, problem(SQUARES), tmp_path / "empty", skills=False)

    for run, same in ((alone, refused), (alone_unlike, unlike)):
        assert [(n.candidate_id, n.parents, n.operator) for n in run.nodes()] == [
            (n.candidate_id, n.parents, n.operator) for n in same.nodes()
        ]
    assert settings_of(refused).injection == 0
    assert settings_of(refused).skills == settings_of(refused).transfers == ()
    assert settings_of(refused).operators == settings_of(alone).operators


def test_only_a_promoted_kernel_of_this_target_is_transferred(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    first = searched(monkeypatch, FIRST, tmp_path)
    store, cpu = first.store, TARGETS.get("cpu")

    class Elsewhere:
        name, device_type = "nvidia", "cpu"

        def __getattr__(self, name: str) -> object:
            return getattr(cpu, name)

    assert settings_for(store, LARGER, cpu).transfers
    # Another target halves the similarity: the page is still worth reading, the kernel is not offered.
    elsewhere = settings_for(store, FIRST, Elsewhere())  # type: ignore[arg-type]
    assert elsewhere.skills and not elsewhere.transfers
    monkeypatch.setattr(store, "promotions", lambda run: {})
    assert settings_for(store, LARGER, cpu).skills and not settings_for(store, LARGER, cpu).transfers


def test_the_class_is_captured_once_for_a_run(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    first = searched(monkeypatch, FIRST, tmp_path)
    second = searched(monkeypatch, LARGER, tmp_path)
    pages = {page.skill.run: page for page in load_skills(tmp_path).pages}
    assert pages[second.id].skill.problem_class == settings_of(second).problem_class

    def refuse(*_: object) -> None:
        raise AssertionError("captured again")

    monkeypatch.setattr("kernelevolve.skills.library.problem_class", refuse)
    for run in (first, second):
        assert write_skill(run.store, run.id, TARGETS.get("cpu")) is not None
    assert {page.skill.run: page for page in load_skills(tmp_path).pages} == pages


def test_a_run_without_a_correct_kernel_leaves_no_skill(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    searched(monkeypatch, FIRST, tmp_path, right=False)
    assert load_skills(tmp_path).pages == ()


def test_a_skill_that_cannot_be_written_is_a_note_and_no_lost_run(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    def broken(*_: object) -> None:
        raise OSError("the disk is full")

    monkeypatch.setattr(results, "write_skill", broken)
    with caplog.at_level(logging.WARNING):
        run = searched(monkeypatch, FIRST, tmp_path)
    assert run.best is not None and (run.directory / "report.html").is_file()
    assert f"no skill was written for run {run.id}: the disk is full" in caplog.text


def test_a_spoilt_page_spoils_no_run(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "skills").mkdir()
    (tmp_path / "skills" / "bad.md").write_bytes(b"\xff\xfe no page")
    (tmp_path / "skills" / "worse.md").write_text("---\nskill: 3\n---\n")
    assert len(load_skills(tmp_path).unread) == 2
    assert searched(monkeypatch, FIRST, tmp_path).best is not None


def test_a_rate_that_is_no_share_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InvalidRequest, match="injection rate of 2 "):
        session.begin(FIRST, target="cpu", out=tmp_path, injection=2)
