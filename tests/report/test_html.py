"""The report: one file, complete, and deaf to what candidates write into it."""

from __future__ import annotations

import json
import re
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest

from kernelevolve.report.contents import collect
from kernelevolve.report.html import write_report
from kernelevolve.run import Run
from stored_runs import HOSTILE, make_run


class Document(HTMLParser):
    """What a browser would see: tags with their attributes, and the text of scripts and of everything else."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.scripts: list[str] = []
        self.text = ""
        self._script = False
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        if tag == "script":
            self._script = True
            self.scripts.append("")

    def handle_endtag(self, tag: str) -> None:
        if tag == "script":
            self._script = False

    def handle_data(self, data: str) -> None:
        if self._script:
            self.scripts[-1] += data
        else:
            self.text += data


def report(run: Run, path: Path) -> Document:
    write_report(run, path / "report.html")
    return Document((path / "report.html").read_text())


def data(document: Document) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(document.scripts[0])
    return found


@pytest.mark.parametrize("count", [0, 1, 60])
def test_every_node_is_in_the_tree_in_the_table_and_in_the_data(tmp_path: Path, count: int) -> None:
    run = make_run(tmp_path, count)
    document = report(run, tmp_path)
    drawn = [a["data-node"] for tag, a in document.tags if tag == "a" and "k-" in (a.get("class") or "")]
    rows = [a["id"] for tag, a in document.tags if tag == "tr" and a.get("id")]
    assert sorted(drawn) == sorted(
        str(n) for n in range(count) for _ in range(2)
    )  # once in the tree, once in the chart
    assert rows == [f"node-{n}" for n in range(count)]
    nodes = data(document)["nodes"]
    assert [node["id"] for node in nodes] == list(range(count))
    sources = data(document)["sources"]
    assert all(sources[node["source"]] == run.candidate(node["id"]).source for node in nodes)


def test_hostile_text_stays_text(tmp_path: Path) -> None:
    document = report(make_run(tmp_path, 60), tmp_path)
    assert len(document.scripts) == 2  # the data and our own; a '</script>' in a source opens no third
    assert not [tag for tag, _ in document.tags if tag in ("img", "iframe", "object", "embed")]
    assert not [a for _, attributes in document.tags for a in attributes if a.startswith("on")]
    reasons = " ".join(node["reason"] for node in data(document)["nodes"])
    shown = [text for text in HOSTILE if text in reasons]
    assert len(shown) > 4
    assert all(text.split()[0] in document.text for text in shown)  # readable, not dropped


def test_nothing_is_fetched_from_anywhere(tmp_path: Path) -> None:
    document = report(make_run(tmp_path, 60), tmp_path)
    for tag, attributes in document.tags:
        assert tag not in ("link", "base")
        for name, value in attributes.items():
            assert name not in ("src", "srcset", "action", "data"), (tag, name)
            if name in ("href", "xlink:href"):
                assert (value or "").startswith("#node-"), value
    style = (tmp_path / "report.html").read_text().partition("<style>")[2].partition("</style>")[0]
    assert "url(" not in style
    assert "@import" not in style


def test_the_policy_of_the_page_allows_its_own_script_only(tmp_path: Path) -> None:
    import base64
    import hashlib

    document = report(make_run(tmp_path, 3), tmp_path)
    policy = next(a["content"] for tag, a in document.tags if tag == "meta" and "http-equiv" in a)
    assert policy is not None
    allowed = base64.b64encode(hashlib.sha256(document.scripts[1].encode()).digest()).decode()
    assert f"script-src 'sha256-{allowed}'" in policy
    assert "default-src 'none'" in policy


def test_a_loss_is_called_a_loss(tmp_path: Path) -> None:
    text = report(make_run(tmp_path, 40, win=False), tmp_path).text
    assert "Correct, but not faster than every baseline" in text
    assert "no difference seen" in text
    assert "Faster than every baseline" not in text


def test_an_unpromoted_result_is_no_claim(tmp_path: Path) -> None:
    text = report(make_run(tmp_path, 40, promoted=False), tmp_path).text
    assert "Not yet proven" in text
    assert "this is no claim" in text


def test_a_win_names_strongest_baseline_interval_clock_and_method(tmp_path: Path) -> None:
    run = make_run(tmp_path, 40)
    text = report(run, tmp_path).text
    assert re.search(r"Faster than every baseline: [\d.]+× \[[\d.]+, [\d.]+\] against compile, .* in wall time", text)
    assert "20 interleaved blocks" in text
    assert "bootstrap" in text
    assert "max-autotune" in text  # a baseline that could not run is named
    assert "could not run" in text


def test_sources_beyond_the_room_are_left_to_show(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kernelevolve.report.html._SOURCE_BYTES", 20_000)
    run = make_run(tmp_path, 60)
    document = report(run, tmp_path)
    kept = {node["id"] for node in data(document)["nodes"] if node["source"] is not None}
    assert 0 < len(kept) < 60
    assert {e.node.id for e in collect(run).lineage} <= kept  # the winning path comes first
    assert "kernelevolve show" in document.scripts[1]


def test_a_large_run_fits_into_a_file_that_a_browser_opens(tmp_path: Path) -> None:
    document = report(make_run(tmp_path, 2000), tmp_path)
    assert len(data(document)["nodes"]) == 2000
    assert (tmp_path / "report.html").stat().st_size < 20_000_000
