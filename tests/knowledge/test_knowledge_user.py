"""A user's own documents: cut, cited by place, found like pages, and kept out of the package."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from kernelevolve.errors import InvalidRequest, MissingTarget
from kernelevolve.knowledge import KnowledgeBase, user
from kernelevolve.knowledge.base import PAGES

NOTES = """# Zebra accelerator

The zebra unit multiplies stripes of nine words in one step.

## Stripe memory

Each stripe memory has eleven quagga banks; a bank conflict stalls the stripe.

```python
# not a heading
x = 1
```
"""
FRONT = "---\ntargets: [amd]\nlanguages: [hip]\ntags: [mine]\n---\n"


def pdf(pages: Sequence[str]) -> bytes:
    """A PDF with one line of text a page."""
    kids = " ".join(f"{4 + 2 * n} 0 R" for n in range(len(pages)))
    objects = [
        "<< /Type /Catalog /Pages 2 0 R >>",
        f"<< /Type /Pages /Kids [{kids}] /Count {len(pages)} >>",
        "<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica >>",
    ]
    for n, text in enumerate(pages):
        stream = f"BT /F1 12 Tf 72 720 Td ({text}) Tj ET"
        objects.append(
            f"<< /Type /Page /Parent 2 0 R /MediaBox [0 0 612 792] /Contents {5 + 2 * n} 0 R "
            "/Resources << /Font << /F1 3 0 R >> >> >>"
        )
        objects.append(f"<< /Length {len(stream)} >>\nstream\n{stream}\nendstream")
    out, places = b"%PDF-1.4\n", []
    for number, text in enumerate(objects, 1):
        places.append(len(out))
        out += f"{number} 0 obj\n{text}\nendobj\n".encode()
    table = "".join(f"{place:010} 00000 n \n" for place in places)
    end = f"xref\n0 {len(objects) + 1}\n0000000000 65535 f \n{table}"
    return out + f"{end}trailer\n<< /Size {len(objects) + 1} /Root 1 0 R >>\nstartxref\n{len(out)}\n%%EOF\n".encode()


@pytest.fixture(autouse=True)
def data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    place = tmp_path / "data"
    monkeypatch.setenv(user.DIRECTORY_VARIABLE, str(place))
    return place


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    place = tmp_path / "My Notes"
    (place / "deep").mkdir(parents=True)
    (place / "zebra.md").write_text(NOTES)
    (place / "other.txt").write_text("nothing of it")
    return place


def test_markdown_is_cited_by_file_and_line(folder: Path) -> None:
    added = user.add(folder)
    assert (added.name, added.files, len(added.pages), added.unread) == ("my-notes", 1, 2, ())
    found = KnowledgeBase().retrieve("quagga banks", target="nvidia", depth=0)
    assert found[0].page_id == "user/my-notes/zebra.md#2"
    assert (found[0].title, found[0].citation) == ("Stripe memory", "zebra.md:5")
    assert "# not a heading" in found[0].text


def test_pdf_is_cited_by_file_and_page(folder: Path) -> None:
    pytest.importorskip("pypdf")
    (folder / "deep" / "manual.PDF").write_bytes(
        pdf(["first page about nothing much", "okapi registers are wide here"])
    )
    user.add(folder)
    found = KnowledgeBase().retrieve("okapi registers", limit=1)[0]
    assert (found.title, found.citation) == ("manual, page 2", "deep/manual.PDF:2")
    assert found.text == "okapi registers are wide here"


def test_what_a_document_applies_to_is_kept(folder: Path) -> None:
    user.add(folder, targets=["nvidia"], languages=["cuda", "triton"])
    assert KnowledgeBase().retrieve("quagga", target="nvidia", language="cuda")
    assert not KnowledgeBase().retrieve("quagga", target="cpu")
    assert not KnowledgeBase().retrieve("quagga", language="cpp")


def test_front_matter_of_another_kind_is_no_error(folder: Path) -> None:
    (folder / "zebra.md").write_text(FRONT.replace("tags: [mine]\n", "") + NOTES)
    user.add(folder)
    assert not KnowledgeBase().retrieve("quagga", target="cpu")
    (folder / "zebra.md").write_text(FRONT + NOTES)
    user.add(folder)
    found = KnowledgeBase().retrieve("quagga", target="cpu")[0]
    assert found.citation == "zebra.md:10"


def test_a_folder_is_read_again_and_kept_outside_of_the_package(folder: Path, data: Path) -> None:
    before = sorted(PAGES.rglob("*"))
    user.add(folder)
    (folder / "zebra.md").write_text(NOTES.replace("quagga", "ocelot"))
    user.add(folder)
    assert len(list(data.iterdir())) == 1
    assert KnowledgeBase().retrieve("ocelot banks")[0].page_id.startswith("user/")
    assert not any(found.page_id.startswith("user/") for found in KnowledgeBase().retrieve("quagga"))
    assert sorted(PAGES.rglob("*")) == before


def test_long_sections_are_cut(folder: Path) -> None:
    paragraph = "walrus " * 300
    (folder / "zebra.md").write_text(f"# Long\n{paragraph}\n\n{paragraph}\n\n{'seal ' * 900}")
    added = user.add(folder)
    assert len(added.pages) >= 4
    assert all(len(page.body.split()) <= user.LONGEST_PASSAGE for page in added.pages)
    assert sum(page.body.split().count("seal") for page in added.pages) == 900


def test_what_cannot_be_read_is_named_and_the_rest_is_added(folder: Path) -> None:
    pytest.importorskip("pypdf")
    (folder / "broken.pdf").write_bytes(b"%PDF-1.4\nnothing")
    (folder / "scan.pdf").write_bytes(pdf([""]))
    (folder / "latin.md").write_bytes(b"# caf\xe9 au lait, with words enough")
    (folder / "open.md").write_text("---\na: 1\n")
    added = user.add(folder)
    said = "\n".join(added.unread)
    assert len(added.pages) == 2 and len(added.unread) == 4
    assert "broken.pdf: the PDF cannot be read" in said
    assert "scan.pdf: it holds no text" in said
    assert "latin.md: " in said and "the front matter does not end" in said


def test_a_pdf_needs_its_package(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (folder / "manual.pdf").write_bytes(pdf(["text"]))
    monkeypatch.setitem(sys.modules, "pypdf", None)
    with pytest.raises(
        MissingTarget, match=r"needs the package pypdf; install it with: pip install 'kernelevolve\[know"
    ):
        user.add(folder)


def test_nothing_to_read_gets_a_sentence(tmp_path: Path, data: Path) -> None:
    with pytest.raises(InvalidRequest, match="this is no directory"):
        user.add(tmp_path / "nowhere")
    (tmp_path / "empty").mkdir()
    with pytest.raises(InvalidRequest, match="there is no Markdown or PDF file below this directory"):
        user.add(tmp_path / "empty")
    assert not data.exists()


def test_a_damaged_file_gets_a_sentence(folder: Path, data: Path) -> None:
    user.add(folder)
    next(data.iterdir()).write_text(json.dumps({"name": 1}))
    with pytest.raises(InvalidRequest, match="cannot be read; delete the file and add the folder again"):
        KnowledgeBase()


def test_the_users_directory_follows_the_platform(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(user.DIRECTORY_VARIABLE)
    monkeypatch.setenv("XDG_DATA_HOME", "/somewhere")
    assert user.directory() == Path("/somewhere/kernelevolve/knowledge")
