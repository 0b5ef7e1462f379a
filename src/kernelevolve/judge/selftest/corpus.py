"""The corpus: files beside this one, read as text. Headers are literals; nothing in a file runs in this process."""

from __future__ import annotations

import ast
from functools import cache
from pathlib import Path

from kernelevolve.candidates import Candidate
from kernelevolve.candidates.structure import assigned, parse
from kernelevolve.judge.selftest.case import Exploit, ExploitHeader, Family, Good, GoodHeader
from kernelevolve.languages import LANGUAGES
from kernelevolve.problems import Problem

ROOT = Path(__file__).parent / "corpus"


@cache
def exploits() -> tuple[Exploit, ...]:
    """All exploits, by family and file name."""
    return tuple(
        Exploit(path.stem, family, _sentence(path), ExploitHeader.model_validate(_literal(path, "EXPLOIT")), path)
        for family in Family
        for path in sorted((ROOT / "exploits" / family.value).glob("*.py"))
    )


@cache
def good_kernels() -> tuple[Good, ...]:
    """All known-good kernels, by file name."""
    return tuple(
        Good(path.stem, _sentence(path), GoodHeader.model_validate(_literal(path, "GOOD")), path)
        for path in sorted((ROOT / "good").glob("*.py"))
    )


def problem(name: str) -> Problem:
    """A problem of the corpus by the stem of its file."""
    path = ROOT / "problems" / f"{name}.py"
    return Problem(name=name, source=path.read_text(), path=path)


def problem_names() -> tuple[str, ...]:
    """The problems that the corpus has."""
    return tuple(sorted(path.stem for path in (ROOT / "problems").glob("*.py")))


def candidate(case: Exploit | Good) -> Candidate:
    """A case as a candidate. Its header stays behind, so that the program cannot read what it is suspected of."""
    source = case.path.read_text()
    name = "EXPLOIT" if isinstance(case, Exploit) else "GOOD"
    (header,) = (node for node in parse(source).body if isinstance(node, ast.Assign) and _named(node) == name)
    lines = source.splitlines(keepends=True)
    assert header.end_lineno is not None
    for index in range(header.lineno - 1, header.end_lineno):
        lines[index] = "\n"
    text = "".join(lines)
    language = next((each for each in ("cpp", "triton", "cuda") if LANGUAGES.get(each).matches(text)), "pytorch")
    return Candidate(source=text, language=language)


def _literal(path: Path, name: str) -> object:
    value = assigned(parse(path.read_text()), name)
    if value is None:
        raise ValueError(f"{path} has no {name}")
    return ast.literal_eval(value)


def _sentence(path: Path) -> str:
    """The first paragraph of a file's docstring on one line."""
    text = ast.get_docstring(parse(path.read_text()))
    if not text:
        raise ValueError(f"{path} has no docstring")
    return " ".join(text.split("\n\n")[0].split())


def _named(node: ast.Assign) -> str:
    (target, *_) = node.targets
    return target.id if isinstance(target, ast.Name) else ""
