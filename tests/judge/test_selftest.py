"""The self-test: its corpus is sound, its table is true, and a part of it runs here against the real judge."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from kernelevolve.candidates.structure import defines_model_new
from kernelevolve.judge.selftest import corpus, coverage, runner
from kernelevolve.judge.selftest.case import CATALOGUE, REACHED, Exploit, Good, Result, Status, WorksIf
from kernelevolve.judge.selftest.faults import faults
from kernelevolve.judge.verdict import Effort, Stage, Verdict, VerdictKind
from kernelevolve.targets import TARGETS

DOCUMENT = Path(__file__).parents[2] / "docs" / "selftest.md"

QUICK = (
    "002_thread_later", "004_lazy_subclass", "034_not_a_number", "041_freed_own_result", "043_collected_tensor",
    "050_hidden_view", "053_one_buffer", "068_fp16_inside", "070_expanded", "072_one_element", "077_one_nan",
    "089_inherits_model", "102_forged_frame", "103_leaves_early", "106_stolen_token", "111_patched_comparison",
)  # fmt: skip
"""Exploits of one problem whose verdict rests on no clock."""
QUICK_GOOD = ("chatty", "cpp_gain", "innocent_pass", "optional_import", "threads_joined")


def every_case() -> tuple[Exploit | Good, ...]:
    return (*corpus.exploits(), *corpus.good_kernels())


# -- the corpus --------------------------------------------------------------------------------------------------------


def test_there_is_enough_of_everything() -> None:
    exploits, good = corpus.exploits(), corpus.good_kernels()
    assert len(exploits) + len(faults()) >= 100
    assert sum("cpu" in case.header.targets for case in exploits) >= 100
    assert len(good) >= 30 and sum("cpu" in case.header.targets for case in good) >= 15


def test_names_are_unique() -> None:
    names = [case.name for case in every_case()] + [fault.name for fault in faults()]
    assert len(set(names)) == len(names)


@pytest.mark.parametrize("case", every_case(), ids=lambda case: case.name)
def test_a_case_is_sound(case: Exploit | Good) -> None:
    assert case.tries.endswith(".") and case.header.problem in corpus.problem_names()
    assert case.header.targets <= {"cpu", "nvidia"}
    if isinstance(case, Exploit):
        assert int(case.name[:3]) in case.header.numbers
        assert (REACHED in case.path.read_text()) == (case.header.works_if is WorksIf.REACHED)
    candidate = corpus.candidate(case)
    assert defines_model_new(candidate.source)
    # A program must not be able to read what it is suspected of, and every line keeps its number.
    assert "EXPLOIT" not in candidate.source and "GOOD = " not in candidate.source
    assert len(candidate.source.splitlines()) == len(case.path.read_text().splitlines())
    needs = {"cpp", "triton", "cuda"} & {candidate.language}
    assert needs <= set(case.header.needs)


def test_the_judge_knows_nothing_of_the_corpus() -> None:
    judge = Path(runner.__file__).parents[1]
    for path in judge.glob("*.py"):
        imported = [n.module or "" for n in ast.walk(ast.parse(path.read_text())) if isinstance(n, ast.ImportFrom)]
        assert not any("selftest" in name for name in imported), path


# -- the table ---------------------------------------------------------------------------------------------------------


def test_every_entry_of_the_catalogue_has_a_row() -> None:
    assert set(coverage.SUBJECTS) == set(CATALOGUE)
    assert set(coverage.covering()) == set(CATALOGUE)


def test_the_document_is_the_table() -> None:
    assert coverage.table() in DOCUMENT.read_text()


def test_what_is_open_is_not_called_covered() -> None:
    rows = dict(re.findall(r"^\| (\d+) \| [^|]* \| ([^|]*) \|", coverage.table(), re.MULTILINE))
    for number in coverage.OPEN:
        assert rows[str(number)].strip() == "**open**"


# -- the runner --------------------------------------------------------------------------------------------------------


def judged(kind: VerdictKind, reason: str = "") -> Verdict:
    return Verdict(candidate_id="c", kind=kind, stage=Stage.TIMING, effort=Effort.SCREEN, reason=reason)


def exploit(name: str) -> Exploit:
    return next(case for case in corpus.exploits() if case.name == name)


def test_what_counts_as_fooled() -> None:
    wrong = exploit("041_freed_memory")
    assert runner.fooled(wrong, [judged(VerdictKind.CORRECT)]) is not None
    assert runner.fooled(wrong, [judged(VerdictKind.WRONG)]) is None
    assert runner.fooled(wrong, [judged(VerdictKind.TIMEOUT)]) is not None  # Another verdict than the right one.
    assert runner.fooled(exploit("002_thread_later"), [judged(VerdictKind.INFRASTRUCTURE)]) is not None
    reaching = exploit("062_results_on_disk")
    assert runner.fooled(reaching, [judged(VerdictKind.CORRECT)] * 2) is None
    found = judged(VerdictKind.RUNTIME_ERROR, "RuntimeError: REACHED: a file")
    assert runner.fooled(reaching, [judged(VerdictKind.CORRECT), found]) is not None
    slow = exploit("005_patched_time_module")
    assert runner.fooled(slow, [judged(VerdictKind.CORRECT)]) is not None  # Correct without a time is not honest.
    assert runner.fooled(slow, [judged(VerdictKind.CHEAT)]) is None


def test_what_needs_a_gpu_says_so(tmp_path: Path) -> None:
    (result,) = runner.run(TARGETS.get("cpu"), tmp_path, exploits=[exploit("016_stale_graph")], good=(), faults=())
    assert result.status is Status.NOT_HERE and "GPU" in result.reason and not result.failed


@pytest.mark.parametrize("fault", [f for f in faults() if f.name != "strict_policy"], ids=lambda fault: fault.name)
def test_faults_are_shown(fault: object, tmp_path: Path) -> None:
    (result,) = runner.run(TARGETS.get("cpu"), tmp_path, exploits=(), good=(), faults=[fault])  # type: ignore[list-item]
    assert result.status is Status.CAUGHT, result.reason


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Result]]:
    exploits = [case for case in corpus.exploits() if case.name in QUICK]
    good = [case for case in corpus.good_kernels() if case.name in QUICK_GOOD]
    # What clocks say is not asserted here, so nothing is promoted.
    good = [Good(c.name, c.tries, c.header.model_copy(update={"effort": Effort.TUNE}), c.path) for c in good]
    place = tmp_path_factory.mktemp("selftest")
    yield {r.name: r for r in runner.run(TARGETS.get("cpu"), place, exploits=exploits, good=good, faults=())}


@pytest.mark.parametrize("name", QUICK)
def test_an_exploit_is_caught(name: str, results: dict[str, Result]) -> None:
    assert results[name].status is Status.CAUGHT, results[name].reason


@pytest.mark.parametrize("name", QUICK_GOOD)
def test_a_good_kernel_is_accepted(name: str, results: dict[str, Result]) -> None:
    assert results[name].status is Status.ACCEPTED, results[name].reason


def test_judges_side_by_side_say_the_same(tmp_path: Path) -> None:
    names = ("071_nested_output", "041_freed_own_result")
    wrong = [exploit(name) for name in names]
    assert wrong[0].header.problem != wrong[1].header.problem
    found = list(runner.run(TARGETS.get("cpu"), tmp_path, exploits=wrong, good=(), faults=(), in_flight=2))
    assert [(result.name, result.status) for result in found] == [(name, Status.CAUGHT) for name in names]
