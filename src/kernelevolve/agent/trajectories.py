"""Trajectories: a run as training data, one JSON object a line, in the dataset formats of TRL.

Where a language model wrote a program, its prompt and its answer are those of the recording; elsewhere the prompt of a
node is made again, as of the instant before the node was. The reward is 0 for a program that failed, -1
for one that cheated, and for a correct one 1 plus the logarithm of its speed-up over the best baseline, at least 0.1.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from enum import StrEnum
from itertools import combinations
from typing import Any

from kernelevolve.agent.spoken import spoken
from kernelevolve.judge.verdict import VerdictKind
from kernelevolve.prompting import BudgetLeft, Memory, assemble
from kernelevolve.run import Run
from kernelevolve.search.briefing import Briefing
from kernelevolve.search.graph import SearchGraph
from kernelevolve.search.ledger import Budget
from kernelevolve.search.node import Node
from kernelevolve.targets import TARGETS

_LEAST_REWARD = 0.1
_MARGIN = 0.02
"""Difference in reward below which two programs are no pair: it may be noise."""


class Format(StrEnum):
    """What the lines are for."""

    SFT = "sft"
    """One line a correct node: prompt and completion."""
    DPO = "dpo"
    """One line a pair of siblings: prompt, chosen, rejected."""
    GRPO = "grpo"
    """One line a group of siblings: prompt, and the completions with their rewards."""


def trajectories(run: Run, form: Format) -> Iterator[dict[str, Any]]:
    """The lines of a run."""
    source = _Source(run)
    if form is Format.SFT:
        return source.single()
    return source.pairs() if form is Format.DPO else source.groups()


def reward(node: Node) -> float:
    """What a program is worth to a learner."""
    if node.kind is VerdictKind.CHEAT:
        return -1.0
    return max(_LEAST_REWARD, 1 + node.fitness) if node.correct and math.isfinite(node.fitness) else 0.0


class _Source:
    def __init__(self, run: Run) -> None:
        self._run, self._record = run, run.record
        self._budget = Budget.model_validate(self._record.settings["budget"])
        self._history = list(run.history())

    def single(self) -> Iterator[dict[str, Any]]:
        for stored in self._history:
            node = stored.node
            if node.correct:
                said = None if stored.proposal is None else spoken(self._run, stored.proposal)
                prompt = self._prompt(node.parents, node.id, None) if said is None else said.prompt
                answer = self._answer(node) if said is None else _assistant(said.answer)
                yield {"prompt": _user(prompt), "completion": answer, **self._facts(node)}

    def groups(self) -> Iterator[dict[str, Any]]:
        for parents, nodes in self._siblings():
            yield {
                "prompt": _user(self._shared(parents)),
                "completions": [self._answer(node) for node in nodes],
                "rewards": [reward(node) for node in nodes],
                "verdicts": [node.kind.value for node in nodes],
                "run": self._run.id, "nodes": [node.id for node in nodes],
            }  # fmt: skip

    def pairs(self) -> Iterator[dict[str, Any]]:
        for parents, nodes in self._siblings():
            prompt = _user(self._shared(parents))
            for one, other in combinations(nodes, 2):
                better, worse = sorted((one, other), key=reward, reverse=True)
                if reward(better) - reward(worse) > _MARGIN:
                    yield {
                        "prompt": prompt, "chosen": self._answer(better), "rejected": self._answer(worse),
                        "reward_chosen": reward(better), "reward_rejected": reward(worse),
                        "verdict_chosen": better.kind.value, "verdict_rejected": worse.kind.value,
                        "run": self._run.id, "nodes": [better.id, worse.id],
                    }  # fmt: skip

    def _siblings(self) -> Iterator[tuple[tuple[int, ...], list[Node]]]:
        """Nodes of the same parents. Numbers alone make no sibling, and what says nothing of a program is no node."""
        groups: dict[tuple[int, ...], list[Node]] = {}
        for stored in self._history:
            if stored.node.operator != "tune":
                groups.setdefault(stored.node.parents, []).append(stored.node)
        return ((parents, nodes) for parents, nodes in groups.items() if len(nodes) > 1)

    def _shared(self, parents: tuple[int, ...]) -> str:
        """A prompt that is the same for all siblings: it knows nothing that came after their parents."""
        return self._prompt(parents, max(parents, default=-1) + 1, Memory.INHERIT)

    def _prompt(self, parents: tuple[int, ...], before: int, memory: Memory | None) -> str:
        graph = SearchGraph()
        for stored in self._history[:before]:
            graph.insert(stored.node)
        elapsed = self._history[before - 1].elapsed if before else 0.0
        left = BudgetLeft(max(0, self._budget.evaluations - before), max(0.0, self._budget.seconds - elapsed))
        briefing = Briefing(self._run.store, self._record, TARGETS.get(self._record.target), graph)
        return assemble(briefing.context(parents, left, memory=memory)).text

    def _answer(self, node: Node) -> list[dict[str, str]]:
        text = f"```python\n{self._run.candidate(node.id).source.rstrip()}\n```"
        return _assistant(text)

    def _facts(self, node: Node) -> dict[str, Any]:
        return {"verdict": node.kind.value, "reward": reward(node), "run": self._run.id, "node": node.id}


def _assistant(text: str) -> list[dict[str, str]]:
    return [{"role": "assistant", "content": text}]


def _user(text: str) -> list[dict[str, str]]:
    return [{"role": "user", "content": text}]
