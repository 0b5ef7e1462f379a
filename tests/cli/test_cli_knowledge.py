"""``kernelevolve knowledge``: what is printed, word for word, over a few small pages."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from kernelevolve import cli
from kernelevolve.knowledge import base, user

PAGE = """---
targets: [{target}]
languages: [any]
bottlenecks: [memory]
phase: {phase}
sources: ["A manual, https://example.org", "measured, here"]
---

# {title}
{text}
"""
PAGES = {
    "hardware/cpu/lines": (
        "cpu",
        "basics",
        "Cache lines",
        "A cache line has 64 bytes [1]; stores of whole lines are quick [2].",
    ),
    "hardware/gpu/lines": ("nvidia", "expert", "Sectors", "A sector of a cache line has 32 bytes [1][2]."),
    "guidance/sums": ("any", "advanced", "Sums", "Sums want several accumulators [1][2]."),
}
# A word that most pages have weighs nothing; a base of few pages would have no scores to show.
PAGES |= {f"other/{n}": ("mtia", "advanced", f"Other {n}", "Nothing of it [1][2]. " * 30) for n in range(5)}
SEARCHED = """\
hardware/cpu/lines  Cache lines  4.0
  A cache line has 64 bytes [1]; stores of whole lines are quick [2].
hardware/gpu/lines  Sectors  3.3
  A sector of a cache line has 32 bytes [1][2].
"""
SHOWN = """\
Cache lines
targets: cpu; languages: any; bottlenecks: memory; phase: basics

A cache line has 64 bytes [1]; stores of whole lines are quick [2].

[1] A manual, https://example.org
[2] measured, here
"""


@pytest.fixture(autouse=True)
def pages(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    place = tmp_path / "pages"
    for page_id, (target, phase, title, text) in PAGES.items():
        path = place / f"{page_id}.md"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(PAGE.format(target=target, phase=phase, title=title, text=text))
    monkeypatch.setattr(base, "shipped_pages", lambda: base.load_pages(place))
    monkeypatch.setenv(user.DIRECTORY_VARIABLE, str(tmp_path / "data"))
    return place


def run(capsys: pytest.CaptureFixture[str], words: str) -> tuple[int, str, str]:
    code = cli.run(["knowledge", *words.split()])
    captured = capsys.readouterr()
    return code, captured.out, captured.err


def test_search(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, err = run(capsys, "search cache lines")
    assert (code, out, err) == (0, SEARCHED, "")


def test_search_as_json(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = run(capsys, "search cache lines --target nvidia --json")
    assert code == 0
    found = json.loads(out)["found"]
    assert [(f["page_id"], f["title"], set(f)) for f in found] == [
        ("hardware/gpu/lines", "Sectors", {"page_id", "title", "citation", "score", "snippet"})
    ]
    assert found[0]["citation"] == "hardware/gpu/lines: [1] A manual, https://example.org; [2] measured, here"


@pytest.mark.parametrize(
    ("words", "found"),
    [
        ("search line --phase expert", ["hardware/gpu/lines"]),
        ("search line --depth 0", ["hardware/cpu/lines"]),
        ("search line --bottleneck launch", []),
        ("search line sums --limit 1", ["guidance/sums"]),
        ("search sums --language cpp", ["guidance/sums"]),
    ],
)
def test_search_restricted(capsys: pytest.CaptureFixture[str], words: str, found: list[str]) -> None:
    code, out, _ = run(capsys, f"{words} --json")
    assert [f["page_id"] for f in json.loads(out)["found"]] == found
    assert code == (0 if found else 1)


def test_show(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(capsys, "show hardware/cpu/lines") == (0, SHOWN, "")
    code, out, _ = run(capsys, "show hardware/cpu/lines --json")
    assert code == 0 and json.loads(out)["front"]["phase"] == "basics"


def test_add_and_find(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    (tmp_path / "notes").mkdir()
    (tmp_path / "notes" / "a.md").write_text("# Okapi\nThe okapi unit has striped registers.\n")
    (tmp_path / "notes" / "b.md").write_text("")
    said = "1 passages of 1 files are in the knowledge base\nnot read: b.md: it holds no text\n"
    assert run(capsys, f"add {tmp_path / 'notes'} --target cpu") == (0, said, "")
    assert run(capsys, "search okapi")[1].splitlines()[1] == "  The okapi unit has striped registers."
    shown = run(capsys, "show user/notes/a.md#1")[1]
    assert shown.startswith("Okapi\ntargets: cpu; ") and shown.endswith("\n\na.md:1\n")


def test_lint(capsys: pytest.CaptureFixture[str], pages: Path) -> None:
    short = "8 words are no page; say more, or put them into another one"
    code, out, err = run(capsys, f"lint {pages} --json")
    document = json.loads(out)
    assert (code, document["pages"]) == (1, 8)
    assert {
        "page": "hardware/gpu/lines",
        "rule": "size",
        "text": "10 words are no page; say more, or put them into another one",
    } in document["complaints"]
    assert err.endswith("8 pages, 3 complaints\n") and short not in err


def test_the_shipped_pages_pass(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = run(capsys, "lint")
    assert code == 0 and out.endswith(" pages, 0 complaints\n")


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (
            "search x --target tpu",
            "error: the knowledge base has no target 'tpu'; choose one of nvidia, amd, mtia, cpu\n",
        ),
        ("show lines2", "error: there is no page 'lines2'; look for one with: kernelevolve knowledge search\n"),
        ("add nowhere", "error: nowhere: this is no directory; give a folder of Markdown or PDF files\n"),
        ("lint nowhere", "error: nowhere: there is no Markdown file below this directory; give one with pages\n"),
        ("search", "error: Missing argument 'QUERY…'; see kernelevolve knowledge --help\n"),
    ],
)
def test_bad_input_gets_a_sentence(capsys: pytest.CaptureFixture[str], words: str, sentence: str) -> None:
    assert run(capsys, words) == (2, "", sentence)


def test_help_names_the_commands(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = run(capsys, "--help")
    assert code == 0
    assert all(f"\n  {name}  " in out for name in ("search", "show", "add", "lint"))
