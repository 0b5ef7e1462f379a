"""How search scales: a graph of 100,000 nodes, every policy's selection time, and the memory of both together.

    python benchmarks/graph_scale.py [--nodes 100000] [--selections 2000]

The graph is grown the way a long search grows one: a third of the children hang below one of the fittest programs, the
others below a recent one or any; one in four fails, some combine two parents. Each policy then learns the whole graph
(what a resumed run does), and is timed on selections, each followed by the insert of its result. Times are processor
times of the thread, so that other work on the machine is not counted. Memory is the largest resident size of a process
that holds the interpreter, the graph and one policy.

Bars: a selection stays below 10 ms, memory below 500 MB.
"""

from __future__ import annotations

import argparse
import math
import multiprocessing
import random
import resource
import sys
import time
from dataclasses import dataclass
from statistics import quantiles

from kernelevolve.hashing import digest_json
from kernelevolve.judge.verdict import VerdictKind
from kernelevolve.search.graph import SearchGraph
from kernelevolve.search.node import Node
from kernelevolve.search.policies import POLICIES

SELECTION_BAR_MS = 10.0
MEMORY_BAR_MB = 500.0


@dataclass(frozen=True, slots=True)
class Row:
    """What was measured of one policy."""

    policy: str
    rebuild_seconds: float
    median_ms: float
    p99_ms: float
    worst_ms: float
    update_ms: float
    memory_mb: float

    @property
    def passed(self) -> bool:
        return self.worst_ms < SELECTION_BAR_MS and self.memory_mb < MEMORY_BAR_MB


def child_of(graph: SearchGraph, parents: tuple[int, ...], rng: random.Random) -> Node:
    """A judged candidate as a search would insert it."""
    number = len(graph)
    failed = rng.random() < 0.25
    inherited = max((graph[p].fitness for p in parents if graph[p].correct), default=rng.gauss(-0.5, 0.3))
    return Node(
        id=number,
        candidate_id=digest_json(["candidate", number]),
        parents=parents,
        operator=("synthesize", "mutate", "combine")[len(parents)],
        kind=rng.choice(list(VerdictKind)[1:6]) if failed else VerdictKind.CORRECT,
        fitness=-math.inf if failed else inherited + rng.gauss(-0.05, 0.05),
        structure=digest_json(["structure", number if rng.random() < 0.9 else rng.randrange(number + 1)]),
        depth=1 + min(graph[p].depth for p in parents) if parents else 0,
        niche="|".join(f"{name}{rng.randrange(6)}" for name in ("fuse", "tile", "vector", "library")),
    )


def grow(count: int, seed: int = 0) -> SearchGraph:
    """A graph of ``count`` nodes."""
    rng, graph, fit = random.Random(seed), SearchGraph(), [0]
    for number in range(count):
        if number < 20 or rng.random() < 0.01:
            parents: tuple[int, ...] = ()
        else:
            first = rng.choice((rng.choice(fit), rng.randrange(max(0, number - 500), number), rng.randrange(number)))
            second = rng.choice(fit)
            parents = (first, second) if rng.random() < 0.15 and first != second else (first,)
        node = child_of(graph, parents, rng)
        graph.insert(node)
        if node.correct and node.fitness > graph[fit[0]].fitness - 0.3:
            fit = [node.id, *fit[:19]] if node.fitness > graph[fit[0]].fitness else [*fit[:19], node.id]
    return graph


def measure(name: str, nodes: int, selections: int) -> Row:
    """Grow a graph, teach it to one policy, and select from it."""
    graph, policy, rng = grow(nodes), POLICIES.get(name)(), random.Random(1)
    started = time.thread_time()
    for node in graph.nodes():
        policy.update(graph, node)
    policy.load_state_dict(policy.state_dict())
    rebuilt = time.thread_time() - started
    selecting, updating = [], []
    for _ in range(selections):
        started = time.thread_time()
        (expansion,) = policy.select(graph, 1, rng)
        selecting.append(1000 * (time.thread_time() - started))
        node = child_of(graph, expansion.parents, rng)
        graph.insert(node)
        started = time.thread_time()
        policy.update(graph, node)
        updating.append(1000 * (time.thread_time() - started))
    percentiles = quantiles(selecting, n=100)
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    return Row(name, rebuilt, percentiles[49], percentiles[98], max(selecting), max(updating), memory)


def main() -> int:
    """Print the table; 1 if a bar is missed."""
    parser = argparse.ArgumentParser(description="select time and memory of every policy on a large graph")
    parser.add_argument("--nodes", type=int, default=100_000)
    parser.add_argument("--selections", type=int, default=2000)
    arguments = parser.parse_args()
    print(f"{arguments.nodes} nodes, {arguments.selections} selections each (measured; milliseconds of one selection)")
    print("| policy | rebuild s | select p50 | select p99 | select max | update max | memory MB | bars |")
    print("|---|---|---|---|---|---|---|---|")
    passed = True
    # A fresh process for each, so that the memory of one is not counted for the next.
    with multiprocessing.get_context("spawn").Pool(1, maxtasksperchild=1) as pool:
        for name in POLICIES.names():
            row = pool.apply(measure, (name, arguments.nodes, arguments.selections))
            passed = passed and row.passed
            print(
                f"| {row.policy} | {row.rebuild_seconds:.2f} | {row.median_ms:.4f} | {row.p99_ms:.4f} | "
                f"{row.worst_ms:.3f} | {row.update_ms:.3f} | {row.memory_mb:.0f} | "
                f"{'met' if row.passed else 'MISSED'} |",
                flush=True,
            )
    return 0 if passed else 1


if __name__ == "__main__":
    sys.exit(main())
