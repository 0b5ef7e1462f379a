"""Export: lines that TRL understands, with rewards that follow from verdicts."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from told_runs import Telling, program

from kernelevolve.agent.trajectories import Format, reward, trajectories
from kernelevolve.run import Run


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    telling = Telling(tmp_path_factory.mktemp("run"))
    for name, parents in ((1, []), ("broken", []), (2, []), (5, [0]), ("broken_too", [0]), (9, [0]), (7, [3])):
        telling.tell(program(name), parents)
    return Run(telling.store, telling.record.id)


def lines(run: Run, form: Format) -> list[dict[str, Any]]:
    """Through JSON, as a loader reads them."""
    return [json.loads(json.dumps(line)) for line in trajectories(run, form)]


def is_conversation(value: Any, role: str) -> bool:
    return isinstance(value, list) and [sorted(m) for m in value] == [["content", "role"]] and value[0]["role"] == role


def test_sft_has_the_correct_programs_with_the_prompts_that_led_to_them(run: Run) -> None:
    found = lines(run, Format.SFT)
    assert [line["node"] for line in found] == [n.id for n in run.nodes() if n.correct]
    for line in found:
        assert is_conversation(line["prompt"], "user") and is_conversation(line["completion"], "assistant")
        assert line["verdict"] == "correct" and line["reward"] > 0
        assert run.candidate(line["node"]).source.strip() in line["completion"][0]["content"]
    child = next(line for line in found if line["node"] == 6)
    assert run.candidate(3).source.strip() in child["prompt"][0]["content"]
    assert run.candidate(6).source.strip() not in child["prompt"][0]["content"]


def test_dpo_has_pairs_of_siblings_the_better_one_chosen(run: Run) -> None:
    found = lines(run, Format.DPO)
    nodes = {n.id: n for n in run.nodes()}
    assert found
    for line in found:
        better, worse = (nodes[i] for i in line["nodes"])
        assert better.parents == worse.parents and reward(better) > reward(worse)
        assert is_conversation(line["chosen"], "assistant") and is_conversation(line["rejected"], "assistant")
        for hidden in (better, worse):
            assert run.candidate(hidden.id).source.strip() not in line["prompt"][0]["content"]


def test_grpo_has_groups_with_rewards(run: Run) -> None:
    found = lines(run, Format.GRPO)
    assert sorted(line["nodes"] for line in found) == [[0, 1, 2], [3, 4, 5]]
    for line in found:
        assert len(line["completions"]) == len(line["rewards"]) == len(line["verdicts"])
        assert is_conversation(line["prompt"], "user")
        assert all((r > 0) == (v == "correct") for r, v in zip(line["rewards"], line["verdicts"], strict=True))


@pytest.mark.parametrize("form", list(Format))
def test_datasets_loads_it(run: Run, form: Format, tmp_path: Path) -> None:
    datasets = pytest.importorskip("datasets", reason="the package datasets is not installed")
    path = tmp_path / "data.jsonl"
    path.write_text("".join(json.dumps(line) + "\n" for line in trajectories(run, form)))
    loaded = datasets.load_dataset("json", data_files=str(path), split="train", cache_dir=str(tmp_path / "cache"))
    assert len(loaded) == len(lines(run, form)) and "prompt" in loaded.column_names
    trl = pytest.importorskip("trl", reason="the package trl is not installed")
    assert trl.is_conversational(loaded[0])
