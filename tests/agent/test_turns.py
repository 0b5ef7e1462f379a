"""Asking and telling: an ordinary run, whoever writes the candidates."""

from __future__ import annotations

from pathlib import Path

import pytest
from told_runs import Telling, program

from kernelevolve.errors import InvalidCandidate, InvalidRequest, KernelEvolveError
from kernelevolve.judge.verdict import VerdictKind
from kernelevolve.prompting import Change, Memory, assemble
from kernelevolve.run import Run
from kernelevolve.search.turns import AGENT
from kernelevolve.store import RunStatus


def test_a_told_candidate_is_a_node_like_any_other(tmp_path: Path) -> None:
    telling = Telling(tmp_path)
    told = telling.tell(program(1))
    assert (told.node.id, told.node.operator, told.known, told.improved) == (0, AGENT, False, True)
    run = Run(telling.store, telling.record.id)
    assert run.best is not None and run.best.node == told.node
    assert run.record.status is RunStatus.INTERRUPTED and run.summary().evaluations == 1


def test_a_question_is_the_same_until_it_is_answered(tmp_path: Path) -> None:
    telling = Telling(tmp_path)
    for number in range(8):
        first, second = telling.turns().question(), telling.turns().question()
        assert (first.number, first.parents) == (second.number, second.parents) == (number, first.parents)
        told = telling.tell(program(number))
        assert told.node.parents == first.parents
    assert any(node.parents for node in Run(telling.store, telling.record.id).nodes())


def test_the_same_program_again_is_answered_from_the_store(tmp_path: Path) -> None:
    telling = Telling(tmp_path)
    telling.tell(program(1))
    calls = len(telling.judge.calls)
    told = telling.tell("# another comment\n" + program(1), [])
    assert told.known and told.node.id == 0 and len(telling.judge.calls) == calls
    assert telling.turns().question().number == 1


def test_other_numbers_go_to_the_numeric_search(tmp_path: Path) -> None:
    telling = Telling(tmp_path, quick_trials=2)
    telling.settings = telling.settings.model_copy(update={"quick_trials": 1})
    telling.tell(program(1))
    told = telling.tell(program(1).replace("TUNABLES.default", '{"BLOCK": 1024}'))
    assert (told.node.operator, told.node.parents, told.improved) == ("tune", (0,), True)
    assert telling.store.candidate(telling.record.id, told.node.id).config == {"BLOCK": 1024}
    assert [config for config, _ in telling.store.trials(telling.record.id, 0)][-1] == {"BLOCK": 1024}


def test_another_parent_may_be_named(tmp_path: Path) -> None:
    telling = Telling(tmp_path)
    for number in range(3):
        telling.tell(program(number), [])
    assert telling.tell(program(7), [1]).node.parents == (1,)
    assert telling.tell(program(8), [1, 2]).node.parents == (1, 2)
    for wrong, words in (([9], "there is no node 9"), ([0, 1, 2], "3 parents are too many")):
        with pytest.raises(InvalidCandidate, match=words):
            telling.tell(program(9), wrong)


def test_a_text_that_is_no_python_gets_a_verdict(tmp_path: Path) -> None:
    telling = Telling(tmp_path)
    told = telling.tell("class ModelNew(: broken", [])
    assert told.node.id == 0 and told.verdict.kind is VerdictKind.WRONG  # the stand-in's word; it was asked


def test_budgets_hold(tmp_path: Path) -> None:
    telling = Telling(tmp_path, evaluations=3)
    for number in range(3):
        telling.tell(program(number), [])
    with pytest.raises(InvalidRequest, match=r"3 of 3 evaluations are used.*kernelevolve finish"):
        telling.tell(program(4), [])
    assert telling.tell(program(2)).known  # the store's answer costs nothing
    assert telling.turns().question().budget.evaluations == 0


def test_a_judge_that_fails_costs_nothing(tmp_path: Path) -> None:
    telling = Telling(tmp_path)
    telling.judge.fails = True
    with pytest.raises(KernelEvolveError, match="tell it again"):
        telling.tell(program(1))
    telling.judge.fails = False
    assert telling.tell(program(1)).node.id == 0


def test_what_a_change_is(tmp_path: Path) -> None:
    telling = Telling(tmp_path)
    telling.tell(program("a"), [])
    wider = program("a").replace("1024", "4096")
    assert telling.tell(wider, [0]).change is Change.TUNABLES
    assert telling.tell(program("b"), [0]).change is Change.PROGRAM


def test_memory_leads_out_of_a_rut(tmp_path: Path) -> None:
    telling = Telling(tmp_path)
    telling.tell(program(9), [])
    question = telling.turns().question([0])
    assert question.briefing.memory([0]) is Memory.INHERIT
    for name in "abcde":
        telling.tell(program(name), [0])
    question = telling.turns().question([0])
    assert question.briefing.memory([0]) is Memory.CLEAN
    prompt = assemble(question.briefing.context([0], question.budget))
    assert "What else was made from it" not in prompt.text
    both = assemble(question.briefing.context([0], question.budget, memory=Memory.BOTH))
    assert "What else was made from it" in both.text
