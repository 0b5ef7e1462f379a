"""``kernelevolve knowledge skills`` and ``show`` of one; the options that turn skills off."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from kernelevolve import cli
from kernelevolve.run import Run
from kernelevolve.skills import ProblemClass
from kernelevolve.skills.distill import distill
from kernelevolve.skills.page import SkillPage, page_of
from stored_runs import make_run


@pytest.fixture
def run(tmp_path: Path) -> Run:
    return make_run(tmp_path, 12)


@pytest.fixture
def page(run: Run) -> SkillPage:
    skill = distill(run.store, run.id, ProblemClass(digest="a", target="cpu", operators={"mm": 1.0}))
    assert skill is not None
    made = page_of(skill)
    folder = run.store.workspace / "skills"
    folder.mkdir()
    (folder / f"{run.id}.md").write_text(made.text, encoding="utf-8")
    return made


def test_skills_are_listed(run: Run, page: SkillPage, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.run(["knowledge", "skills", "--out", str(run.store.workspace)]) == 0
    said = capsys.readouterr().out
    assert said == (
        f"{run.id}  {page.skill.problem} on cpu, cpp, {page.skill.speedup:.3g}x (promoted), node {page.skill.node}\n"
    )
    assert cli.run(["knowledge", "skills", "--out", str(run.store.workspace), "--json"]) == 0
    (listed,) = json.loads(capsys.readouterr().out)["skills"]
    assert (listed["run"], listed["node"], listed["target"]) == (run.id, page.skill.node, "cpu")


def test_a_page_that_cannot_be_read_is_named(run: Run, capsys: pytest.CaptureFixture[str]) -> None:
    folder = run.store.workspace / "skills"
    folder.mkdir()
    (folder / "odd.md").write_text("no page")
    assert cli.run(["knowledge", "skills", "--out", str(run.store.workspace)]) == 1
    said = capsys.readouterr().out
    assert "not read" in said and "odd.md" in said and "no run in" in said


def test_a_skill_is_shown_and_so_is_a_page_still(run: Run, page: SkillPage, capsys: pytest.CaptureFixture[str]) -> None:
    out = ["--out", str(run.store.workspace)]
    for name in (run.id, f"skills/{run.id}"):
        assert cli.run(["knowledge", "show", name, *out]) == 0
        said = capsys.readouterr().out
        assert (
            " ".join(said.split()).startswith(page.page.title)
            and "## What won" in said
            and f"[1] {page.skill.citation}" in said
        )
    assert cli.run(["knowledge", "show", "index", *out]) == 0
    assert "Skill:" not in capsys.readouterr().out
    assert cli.run(["knowledge", "show", "../secret", *out]) == 2


@pytest.mark.parametrize("command", ["optimize", "start"])
@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        (["--injection", "1.5"], "--injection 1.5 is no share"),
        (["--injection", "-1"], "--injection -1 is no share"),
        (["--no-skills", "--injection", "0.5"], "--no-skills shows no skills"),
    ],
)
def test_options_that_make_no_sense_are_refused(
    command: str, words: list[str], complaint: str, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    assert cli.run([command, "ranking/map_id", "--out", str(tmp_path), *words]) == 2
    assert complaint in capsys.readouterr().err


def test_they_cannot_be_changed_afterwards(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.run(["optimize", "--resume", "last", "--no-skills", "--injection", "0.5"]) == 2
    assert "injection, --no-skills cannot be changed" in capsys.readouterr().err
