"""A space of programs with known times, and a search over it: what policies are replayed on.

A program is one option for each of several decisions. Its time is the product of a factor per option and of factors for
pairs of options, so that decisions interact and a good program is found by steps, not by one draw. Some pairs of
options do not build. Everything follows from the seed of the landscape.
"""

from __future__ import annotations

import math
import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import combinations, product
from typing import Any, TypeAlias

from kernelevolve.judge.verdict import VerdictKind
from kernelevolve.search.graph import SearchGraph
from kernelevolve.search.node import Node
from kernelevolve.search.policy import Expansion, Policy
from kernelevolve.tuning.replay import RecordedSpace

Program: TypeAlias = tuple[int, ...]


class Landscape:
    """All programs over some decisions, with their fitness."""

    def __init__(self, seed: int, sizes: Sequence[int] = (3, 4, 3, 2, 4, 3), failing: float = 0.06) -> None:
        rng = random.Random(seed)
        self.sizes = tuple(sizes)
        self._single = [[rng.gauss(0, 0.25) for _ in range(size)] for size in sizes]
        self._pairs = {
            (i, a, j, b): rng.gauss(0, 0.12)
            for i, j in combinations(range(len(sizes)), 2)
            for a, b in product(range(sizes[i]), range(sizes[j]))
        }
        self._broken = {key for key in self._pairs if rng.random() < failing}

    def _keys(self, program: Program) -> Iterator[tuple[int, int, int, int]]:
        for i, j in combinations(range(len(program)), 2):
            yield i, program[i], j, program[j]

    def fitness(self, program: Program) -> float:
        """log speed-up; -inf if the program does not build."""
        if any(key in self._broken for key in self._keys(program)):
            return -math.inf
        return sum(self._single[i][a] for i, a in enumerate(program)) + sum(self._pairs[k] for k in self._keys(program))

    def programs(self) -> Iterator[Program]:
        return product(*map(range, self.sizes))

    def draft(self, rng: random.Random, tried: set[Program]) -> Program | None:
        for _ in range(50):
            program = tuple(rng.randrange(size) for size in self.sizes)
            if program not in tried:
                return program
        return None

    def mutate(self, parent: Program, rng: random.Random, tried: set[Program]) -> Program | None:
        """One decision changed."""
        near = [
            (*parent[:i], option, *parent[i + 1 :])
            for i, size in enumerate(self.sizes)
            for option in range(size)
            if option != parent[i]
        ]
        new = [program for program in near if program not in tried]
        return rng.choice(new) if new else None

    def combine(self, a: Program, b: Program, rng: random.Random, tried: set[Program]) -> Program | None:
        """Every decision from one of two."""
        new = [program for program in set(product(*map(set, zip(a, b, strict=True)))) if program not in tried]
        return rng.choice(sorted(new)) if new else None


class RecordedLandscape(Landscape):
    """The same over a recorded numeric space: real times, and what is not allowed does not build."""

    def __init__(self, recorded: RecordedSpace) -> None:
        self._values = [tunable.values() for tunable in recorded.space.tunables.values()]
        self.sizes = tuple(map(len, self._values))
        self._seconds = {tuple(config.values()): seconds for config, seconds in recorded.table()}
        self._baseline = self._seconds[tuple(recorded.space.default.values())]

    def fitness(self, program: Program) -> float:
        config = tuple(values[option] for values, option in zip(self._values, program, strict=True))
        return math.log(self._baseline / self._seconds[config]) if config in self._seconds else -math.inf


@dataclass
class Replay:
    """One search on a landscape, one step at a time, with up to ``workers`` evaluations in flight."""

    landscape: Landscape
    policy: Policy
    seed: int = 0
    workers: int = 1
    graph: SearchGraph = field(default_factory=SearchGraph)
    log: list[tuple[Expansion, Program | None]] = field(default_factory=list)
    programs: list[Program] = field(default_factory=list)
    tried: set[Program] = field(default_factory=set)
    dry: bool = False
    _in_flight: list[tuple[Expansion, Program]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.rng = random.Random(self.seed)

    def run(self, budget: int) -> Replay:
        """Until ``budget`` nodes are in the graph, or the policy has nothing more."""
        while len(self.graph) < budget:
            free = min(self.workers, budget - len(self.graph)) - len(self._in_flight)
            selected = self.policy.select(self.graph, free, self.rng) if free > 0 else ()
            for expansion in selected:
                self._start(expansion)
            if self._in_flight:
                self._finish(self.rng.randrange(len(self._in_flight)))
            elif not selected:
                self.dry = True
                break
        return self

    def _start(self, expansion: Expansion) -> None:
        parents = [self.programs[number] for number in expansion.parents]
        if not parents:
            program = self.landscape.draft(self.rng, self.tried)
        elif len(parents) == 1:
            program = self.landscape.mutate(parents[0], self.rng, self.tried)
        else:
            program = self.landscape.combine(parents[0], parents[1], self.rng, self.tried)
        self.log.append((expansion, program))
        if program is None:
            self.policy.withdraw(expansion, spent=True)
        else:
            self.tried.add(program)
            self._in_flight.append((expansion, program))

    def _finish(self, index: int) -> None:
        expansion, program = self._in_flight.pop(index)
        fitness = self.landscape.fitness(program)
        node = Node(
            id=len(self.graph),
            candidate_id=str(program),
            parents=expansion.parents,
            operator=("draft", "mutate", "combine")[len(expansion.parents)],
            kind=VerdictKind.CORRECT if math.isfinite(fitness) else VerdictKind.BUILD_ERROR,
            fitness=fitness,
            structure=str(program),
            depth=1 + min(self.graph[p].depth for p in expansion.parents) if expansion.parents else 0,
            niche=str(program[:2]),
        )
        self.programs.append(program)
        self.graph.insert(node)
        self.policy.update(self.graph, node)

    def resumed(self, policy: Policy, state: Any) -> Replay:
        """The same search in a new process: a new policy taught from the graph and the state. Nothing is in flight."""
        graph = SearchGraph()
        for node in self.graph.nodes():
            graph.insert(node)
            policy.update(graph, node)
        policy.load_state_dict(state)
        new = Replay(self.landscape, policy, self.seed, self.workers, graph, [], list(self.programs))
        new.tried = set(self.programs)
        new.rng.setstate(self.rng.getstate())
        return new
