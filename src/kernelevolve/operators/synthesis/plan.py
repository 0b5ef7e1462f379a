"""Plans: the structural decisions behind a generated source, recorded in it so that it can be changed and crossed.

Decisions are made where they arise: a stage of the synthesis asks ``Planner.choose(name, options)`` and goes on with
the answer. So a decision exists only in the circumstances in which it means something, and the plan of a source is the
list of the questions that its making asked. Asking again with one answer replaced is a mutation; answering from two
lists is a crossover.
"""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

PLAN_VERSION = 1


@dataclass(frozen=True)
class Decision:
    """One structural choice. ``name`` is 'kind' or 'kind:subject', e.g. 'fuse' or 'product:bmm_1'."""

    name: str
    options: tuple[str, ...]
    """The legal answers, the default first."""
    choice: str
    niche: bool = False
    """True if it describes the behaviour of the program coarsely enough for a map of elites."""

    @property
    def kind(self) -> str:
        """The part of the name before the colon."""
        return self.name.partition(":")[0]


@dataclass(frozen=True)
class Plan:
    """The decisions of one source, in the order in which they arose."""

    decisions: tuple[Decision, ...] = ()

    @property
    def choices(self) -> dict[str, str]:
        """Name to answer."""
        return {d.name: d.choice for d in self.decisions}

    def literal(self) -> dict[str, Any]:
        """The value of ``PLAN`` in a source: version, niche, and every choice by name."""
        return {"version": PLAN_VERSION, "niche": self.niche, "choices": self.choices}

    @property
    def niche(self) -> str:
        """Behaviour descriptor: the answers to each question that marks one, e.g. 'product=tiled|row=keep'."""
        kinds: dict[str, set[str]] = {}
        for decision in self.decisions:
            if decision.niche:
                kinds.setdefault(decision.kind, set()).add(decision.choice)
        return "|".join(f"{kind}={'+'.join(sorted(answers))}" for kind, answers in sorted(kinds.items())) or "plain"

    def neighbors(self) -> list[dict[str, str]]:
        """The choices of every plan that answers one question differently (later questions may change with it)."""
        base = self.choices
        return [{**base, d.name: o} for d in self.decisions for o in d.options if o != d.choice]

    def crossover(self, other: Plan, rng: random.Random) -> dict[str, str]:
        """For every question of either parent the answer of one of them, drawn evenly."""
        mine, theirs = self.choices, other.choices
        return {n: rng.choice([c[n] for c in (mine, theirs) if n in c]) for n in {**theirs, **mine}}


def read_choices(literal: Mapping[str, Any]) -> dict[str, str] | None:
    """The choices in a ``PLAN`` literal; None if it was not written by this version of the synthesis."""
    choices = literal.get("choices")
    if literal.get("version") != PLAN_VERSION or not isinstance(choices, dict):
        return None
    return {str(name): str(choice) for name, choice in choices.items()}


class Planner:
    """Answers the questions of one synthesis and keeps them.

    An answer comes from ``choices`` if it is a legal option there, else it is the default; with ``rng`` a question that
    ``choices`` leaves open is answered by another option with probability ``explore``.
    """

    def __init__(
        self, choices: Mapping[str, str] | None = None, rng: random.Random | None = None, explore: float = 0.0
    ) -> None:
        self._choices = dict(choices or {})
        self._rng = rng
        self._explore = explore
        self._decisions: dict[str, Decision] = {}

    def choose(self, name: str, options: Sequence[str], *, niche: bool = False) -> str:
        """The answer to one question; ``options[0]`` is the default. Asking a name again gives the same answer."""
        if name in self._decisions:
            return self._decisions[name].choice
        choice = self._choices.get(name, "")
        if choice not in options:
            choice = options[0]
            if name not in self._choices and self._rng is not None and len(options) > 1:
                choice = self._rng.choice(options[1:]) if self._rng.random() < self._explore else choice
        if len(options) > 1:
            self._decisions[name] = Decision(name, tuple(options), choice, niche)
        return choice

    @property
    def plan(self) -> Plan:
        """The decisions so far."""
        return Plan(tuple(self._decisions.values()))
