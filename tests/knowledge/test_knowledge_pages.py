"""The shipped pages: enough of them, each with its sources, and all of them within the rules."""

from __future__ import annotations

from pathlib import Path

import pytest

from kernelevolve.knowledge.base import PAGES, shipped_pages
from kernelevolve.knowledge.lint import lint
from kernelevolve.knowledge.page import InvalidPage, parse
from kernelevolve.knowledge.vocabulary import LANGUAGES, TARGETS, language_word, target_word
from kernelevolve.languages import LANGUAGES as BUILT
from kernelevolve.targets import TARGETS as CHIPS

GOOD = """---
targets: [nvidia]
languages: [triton]
bottlenecks: [memory]
phase: basics
sources: ["a book"]
---

# A title
"""
TEXT = "Words " * 60 + "\n* The cache has 48 ways [1].\n"


def test_the_shipped_pages_keep_the_rules() -> None:
    count, complaints = lint(PAGES)
    assert complaints == []
    assert count >= 60


def test_there_are_pages_for_every_target_and_language() -> None:
    for target in TARGETS:
        assert any(target in page.front.targets for page in shipped_pages())
    for language in LANGUAGES:
        assert any(language in page.front.languages for page in shipped_pages())


def test_what_candidates_can_be_written_in_is_in_the_vocabulary() -> None:
    """The search asks with the names of the registries."""
    for name in BUILT:
        assert language_word(name) in LANGUAGES
    for name in CHIPS:
        assert target_word(name) in TARGETS


def test_the_index_names_every_page() -> None:
    index = (PAGES / "index.md").read_text()
    assert [page.id for page in shipped_pages() if page.id != "index" and f"]({page.id}.md)" not in index] == []


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("# A title\n", "p.md:1: the page has no front matter; begin the file with a block of '---' lines that holds"),
        (GOOD.replace("phase: basics\n", ""), "p.md:1: the front matter lacks 'phase'; "),
        (GOOD.replace("basics", "late"), "p.md:1: the front matter is wrong in 'phase': "),
        (GOOD.replace("nvidia", "tpu"), "'tpu' is unknown, choose from nvidia, amd, mtia, cpu, any"),
        (GOOD.replace("[nvidia]", "[any, cpu]"), "'any' stands alone"),
        (GOOD.replace('["a book"]', "[]"), "is wrong in 'sources'"),
        (GOOD.replace("sources:", "author: me\nsources:"), "has the unknown field 'author'"),
        (GOOD.replace("[memory]", "[memory"), "p.md:5: the front matter is not YAML: "),
        ("---\n- a\n---\n# T\n", "p.md:1: the front matter is not a list of fields"),
        (GOOD.replace("---\n\n#", "#"), "p.md:1: the front matter does not end; close it with a line '---'"),
        (GOOD.replace("# A title", "A title"), "p.md:8: the page has no title; begin the text with a line '# Title'"),
    ],
)
def test_a_bad_page_gets_a_sentence(text: str, sentence: str) -> None:
    with pytest.raises(InvalidPage) as caught:
        parse(text, "p", "p.md")
    assert sentence in caught.value.sentence
    assert "\n" not in caught.value.sentence


@pytest.mark.parametrize(
    ("text", "rule", "said"),
    [
        (GOOD + TEXT, None, ""),
        (GOOD + "short [1]", "size", "2 words are no page"),
        (GOOD + TEXT + "word " * 1200, "size", "do not fit a prompt"),
        (GOOD + TEXT + "* It takes 7 µs.\n", "marker", "has the number 7 and no source"),
        (GOOD + TEXT + "* It takes\n  7 µs [1].\n", None, ""),
        (GOOD + TEXT + "* `x[7]` and fp16, 16-bit, 2 passes.\n", None, ""),
        (GOOD + TEXT + "```\n* 7 µs\n```\n", None, ""),
        (GOOD + TEXT + "| a |\n|---|\n| 7 |\n", "marker", "has the number 7"),
        (GOOD + TEXT + "See [2].\n", "marker", "[2] refers to no source; there are 1"),
        (GOOD + TEXT.replace("48 ways [1]", "ways"), "marker", "source 1 is not cited"),
        (GOOD + TEXT + "[there](other.md)\n", "link", "'other.md' leads to no page"),
        (GOOD + TEXT + "[there](https://example.org) [here](p.md)\n", None, ""),
        (GOOD.replace("basics", "late") + TEXT, "front-matter", "'phase'"),
    ],
)  # fmt: skip
def test_lint_finds_what_breaks_a_rule(tmp_path: Path, text: str, rule: str | None, said: str) -> None:
    (tmp_path / "p.md").write_text(text)
    count, complaints = lint(tmp_path)
    assert count == 1
    assert [complaint.rule for complaint in complaints] == ([] if rule is None else [rule])
    assert said in "".join(map(str, complaints))


def test_lint_finds_two_pages_of_one_title(tmp_path: Path) -> None:
    for name in ("a", "b"):
        (tmp_path / f"{name}.md").write_text(GOOD + TEXT)
    assert [str(complaint) for complaint in lint(tmp_path)[1]] == ["b: the title 'A title' is also that of a"]
