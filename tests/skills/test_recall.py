"""Recall: which prompts show skills, what they show, and that a stored run always shows the same."""

from __future__ import annotations

import pytest
from earlier_runs import problem_class

from kernelevolve.agent.trajectories import Format, trajectories
from kernelevolve.candidates import Candidate
from kernelevolve.candidates.structure import structure_key
from kernelevolve.operators import PastKernel, ProposalContext
from kernelevolve.operators.transfer import OPERATOR
from kernelevolve.problems import Problem
from kernelevolve.prompting import BudgetLeft, Memory, assemble
from kernelevolve.run import Run
from kernelevolve.search.briefing import Briefing
from kernelevolve.search.graph import SearchGraph
from kernelevolve.skills.distill import distill
from kernelevolve.skills.library import similar
from kernelevolve.skills.page import SkillPage, page_of
from kernelevolve.skills.recall import is_injected
from kernelevolve.skills.records import SkillReference
from kernelevolve.store import Store
from kernelevolve.targets import TARGETS
from stored_runs import REFERENCE, make_run

HEADING = "## What earlier runs on similar problems learnt"
BUDGET = BudgetLeft(10, 600)


@pytest.fixture(scope="module")
def earlier(tmp_path_factory: pytest.TempPathFactory) -> Run:
    return make_run(tmp_path_factory.mktemp("runs"), 20)


def page(run: Run, digest: str = "a", name: str = "") -> SkillPage:
    skill = distill(run.store, run.id, problem_class(digest))
    assert skill is not None
    return page_of(skill.model_copy(update={"run": name or run.id}))


def settings(store: Store, pages: list[SkillPage], **other: object) -> dict[str, object]:
    references = [
        SkillReference(run=p.skill.run, digest=store.blobs.put(p.text.encode()), similarity=0.9 - n / 10)
        for n, p in enumerate(pages)
    ]
    return {
        "budget": {"evaluations": 20, "seconds": 600}, "seed": 0, "injection": 1.0,
        "skills": [reference.model_dump() for reference in references], **other,
    }  # fmt: skip


def prompt(
    run: Run, given: dict[str, object], *, before: int = 6, memory: Memory | None = None, tokens: int = 24_000
) -> str:
    graph = SearchGraph()
    for stored in list(run.history())[:before]:
        graph.insert(stored.node)
    record = run.record.model_copy(update={"settings": given})
    briefing = Briefing(run.store, record, TARGETS.get("cpu"), graph)
    return assemble(briefing.context([0], BUDGET, memory=memory), tokens=tokens).text


def test_a_skill_is_shown_as_data_with_its_citation(earlier: Run) -> None:
    found = page(earlier)
    text = prompt(earlier, settings(earlier.store, [found]))
    shown = text[text.index(HEADING) :]
    assert f"run {earlier.id}, node {found.skill.node}, measured on a chip & <b>more</b>; similarity 0.90" in shown
    assert f"```markdown\n{found.page.body}\n```" in shown


def test_a_clean_start_sees_none_and_a_rate_of_nothing_shows_nothing(earlier: Run) -> None:
    given = settings(earlier.store, [page(earlier)])
    assert HEADING in prompt(earlier, given, memory=Memory.BOTH)
    assert HEADING not in prompt(earlier, given, memory=Memory.CLEAN)
    assert HEADING not in prompt(earlier, {**given, "injection": 0.0})
    assert HEADING not in prompt(earlier, {**given, "skills": []})


def test_the_rate_is_kept_and_follows_from_seed_and_number_alone() -> None:
    shown = [is_injected({"seed": 3}, number) for number in range(1000)]
    assert 0.70 < sum(shown) / 1000 < 0.80
    assert shown == [is_injected({"seed": 3, "injection": 0.75, "policy": "beam"}, number) for number in range(1000)]
    assert shown != [is_injected({"seed": 4}, number) for number in range(1000)]
    assert sum(is_injected({"injection": 0.25}, number) for number in range(1000)) < 300


def test_a_share_of_the_prompts_of_one_run_is_clean(earlier: Run) -> None:
    given = settings(earlier.store, [page(earlier)], injection=0.5)
    shown = [HEADING in prompt(earlier, given, before=n, memory=Memory.BOTH) for n in range(1, 20)]
    assert shown == [is_injected(given, n) for n in range(1, 20)]
    assert {True, False} == set(shown)


def test_a_small_prompt_says_which_skills_it_leaves_out(earlier: Run) -> None:
    pages = [page(earlier), page(earlier, name="second-run")]
    given = settings(earlier.store, pages)
    whole = prompt(earlier, given)
    assert "run second-run, node" in whole
    length = round(len(whole.encode()) / 3.5)
    less = prompt(earlier, given, tokens=length - 100)
    assert "the pages skills/second-run" in less and "run second-run, node" not in less


def test_exported_prompts_show_what_the_run_saw_whatever_came_later(earlier: Run) -> None:
    found = page(earlier)
    store = earlier.store
    store.set_settings(earlier.id, settings(store, [found]))
    before = [str(line) for line in trajectories(earlier, Format.SFT)]
    folder = store.workspace / "skills"
    folder.mkdir()
    (folder / f"{earlier.id}.md").write_text(found.text.replace("What one run learnt", "Something else"))
    after = [str(line) for line in trajectories(earlier, Format.SFT)]
    assert before == after
    assert any(HEADING in line for line in before)


def test_the_most_similar_come_first_and_of_equals_the_newest(earlier: Run) -> None:
    pages = [
        page(earlier, "b", "20260101-old"),
        page(earlier, "b", "20260102-new"),
        page(earlier, "a", "20250101-same"),
    ]
    unlike = page_of(pages[0].skill.model_copy(update={"problem_class": problem_class("c", operators={"sum": 1.0})}))
    wanted = problem_class("a", size_band=9)
    assert [p.skill.run for _, p in similar([unlike, *pages], wanted)] == [
        "20250101-same", "20260102-new", "20260101-old",
    ]  # fmt: skip


def test_transfer_proposes_what_was_not_tried_in_order() -> None:
    sources = [f"class ModelNew:\n    number = {n}\n" for n in range(2)]
    past = [
        PastKernel("r", n, Candidate(source=text, language="cpp", config={"B": n}), 0.9)
        for n, text in enumerate(sources)
    ]
    broken = PastKernel("r", 9, Candidate(source="class (", language="cpp"), 1.0)

    def proposed(*tried: str, kernels: tuple[PastKernel, ...] = (broken, *past)) -> Candidate | None:
        target = TARGETS.get("cpu")
        return OPERATOR.propose(
            ProposalContext(
                Problem(name="p", source=REFERENCE), "cpu", {}, target.ceilings(), past=kernels,
                tried=frozenset(map(structure_key, tried)),
            )
        )  # fmt: skip

    assert proposed() == past[0].candidate
    assert proposed(sources[0]) == past[1].candidate
    assert proposed(*sources) is None
    assert proposed(kernels=()) is None
