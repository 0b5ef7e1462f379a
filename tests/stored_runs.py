"""Runs stored through the real store, with everything in them that a report must survive."""

from __future__ import annotations

import math
import random
from pathlib import Path

from kernelevolve.candidates import Candidate
from kernelevolve.judge.verdict import (
    Clock,
    Effort,
    Measurement,
    Roofline,
    Samples,
    Speedup,
    Stage,
    Verdict,
    VerdictKind,
)
from kernelevolve.problems import Problem
from kernelevolve.run import Run
from kernelevolve.search.fitness import fitness
from kernelevolve.search.node import Node
from kernelevolve.store import Checkpoint, RunStatus, Store, StoredNode

HOSTILE = (
    "</script><script>alert('a')</script>",
    "<img src=x onerror=alert(2)>",
    '" onmouseover="alert(3)',
    "<!--", "]]>", "{{ 7 * 7 }}", "ünïcödé 漢字 \u2028 \u202e", "x" * 5000,
)  # fmt: skip
REFERENCE = "import torch\nclass Model(torch.nn.Module):\n    def forward(self, x):\n        return x.softmax(-1)\n"
BASELINES = {"eager": 900e-6, "compile": 500e-6, "max-autotune": None}


def make_run(workspace: Path, count: int, *, seed: int = 0, promoted: bool = True, win: bool = True) -> Run:
    """A run of ``count`` nodes: some fail in every way, the rest get faster; the best one is promoted."""
    rng = random.Random(seed)
    store = Store(workspace)
    problem = Problem(name="softmax " + HOSTILE[1], source=REFERENCE + f"# {HOSTILE[0]}\n")
    settings = {"policy": "greedy", "budget": {"evaluations": count, "seconds": 600}}
    record = store.create_run(problem, "cpu", device="a chip & <b>more</b>", settings=settings)
    store.set_baselines(record.id, BASELINES)
    correct: list[tuple[float, int]] = []
    for number in range(count):
        drafted = number < 3 or rng.random() < 0.1 or not correct
        parents: tuple[int, ...] = () if drafted else (_choose(correct, rng),)
        if parents and rng.random() < 0.1:
            parents = (*parents, _choose(correct, rng))
        operator = "synthesize" if drafted else "combine" if len(parents) > 1 else rng.choice(["mutate", "retune"])
        kind = VerdictKind.CORRECT if number == 0 or rng.random() < 0.72 else rng.choice(list(VerdictKind)[1:7])
        candidate = _candidate(number, rng)
        seconds = 520e-6 * math.exp(-0.9 * number / (number + 25)) * rng.uniform(1.0, 1.25)
        verdict = _verdict(candidate, kind, Effort.SCREEN, seconds, rng)
        node = Node(number, candidate.id, parents, operator, kind, fitness(verdict), f"s{number}", len(parents))
        trials = [({"BLOCK": b, "WARPS": w}, seconds * (1 + abs(math.log2(b / 1024)) / 10 + rng.random() / 20))
                  for b in (256, 512, 1024, 2048) for w in (1, 4)] if kind is VerdictKind.CORRECT else []  # fmt: skip
        checkpoint = Checkpoint(ledger={"evaluations": number + 1, "seconds": 2.5 * number, "trials": 8 * number})
        stored = StoredNode(node, f"s{number}", None, 2.5 * number)
        store.append_node(
            record.id, stored, candidate, verdict, [*trials, ({"BLOCK": 4096, "WARPS": 1}, None)], checkpoint
        )
        if kind is VerdictKind.CORRECT:
            correct.append((seconds, number))
    if promoted and correct:
        seconds, number = min(correct)
        candidate = store.candidate(record.id, number)
        store.append_verdict(
            record.id, number,
            _verdict(candidate, VerdictKind.CORRECT, Effort.PROMOTION, seconds if win else 495e-6, rng),
        )  # fmt: skip
    store.set_status(record.id, RunStatus.FINISHED, "all evaluations are spent")
    return Run(store, record.id)


def _choose(correct: list[tuple[float, int]], rng: random.Random) -> int:
    return min(rng.sample(correct, min(4, len(correct))))[1]


def _candidate(number: int, rng: random.Random) -> Candidate:
    body = "\n".join(f"    step_{i} = {rng.choice('abc')} * {i}" for i in range(30))
    source = (
        "from kernelevolve.candidates.space import PowerOfTwo, TunableSpace\n"
        'TUNABLES = TunableSpace({"BLOCK": PowerOfTwo(64, 4096, 1024), "WARPS": PowerOfTwo(1, 8, 4)})\n'
        "CONFIG = TUNABLES.default\n"
        f'PLAN = {{"version": 1, "choices": {{"fuse": "all", "row": "keep {number % 3}"}}}}\n'
        f"# {HOSTILE[number % len(HOSTILE)]}\nSOURCE = r'''\nvoid kernel() {{\n{body}\n}}\n'''\n"
        f"class ModelNew:\n    number = {number}\n"
    )
    return Candidate(source=source, language="cpp", config={"BLOCK": 512 << number % 3, "WARPS": 4})


def _verdict(candidate: Candidate, kind: VerdictKind, effort: Effort, seconds: float, rng: random.Random) -> Verdict:
    if kind is not VerdictKind.CORRECT:
        words = rng.choice(HOSTILE)
        return Verdict(candidate_id=candidate.id, kind=kind, stage=rng.choice(list(Stage)[:5]), effort=effort,
                       reason=f"element {rng.randrange(9)} is off: {words}", detail=f"line\n{words}\nend")  # fmt: skip
    blocks = 20 if effort is Effort.PROMOTION else 4
    times = {"candidate": seconds, **{name: s for name, s in BASELINES.items() if s is not None}}
    samples = tuple(
        Samples(program=name, workload=workload, clock=Clock.WALL, method="monotonic, LLC flushed", blocks=tuple(
            tuple(t * factor * rng.lognormvariate(0, 0.03) for _ in range(5)) for _ in range(blocks)))
        for workload, factor in (("b256", 1.0), ("b<4096>", 9.0)) for name, t in times.items()
    )  # fmt: skip
    speedups = tuple(
        Speedup(baseline=name, clock=clock, value=t / seconds, low=0.97 * t / seconds, high=1.03 * t / seconds)
        for name, t in times.items() if name != "candidate" for clock in (Clock.WALL, Clock.JUDGE)
    )  # fmt: skip
    environment = {"device": "a chip", "threads": "2"}
    rooflines = tuple(
        Roofline(workload=w, bytes=16.8e6 * f, flops=4e6 * f, floor_seconds=150e-6 * f, bound="memory",
                 fraction=150e-6 / seconds)
        for w, f in (("b256", 1.0), ("b<4096>", 9.0))
    )  # fmt: skip
    return Verdict(
        candidate_id=candidate.id, kind=kind, stage=Stage.TIMING, effort=effort, rooflines=rooflines,
        measurement=Measurement(samples=samples, speedups=speedups, noise_floors={Clock.WALL: 0.004}, environment=environment),
        notes=("aten.bmm calls the library",), seconds_building=0.4, seconds_running=0.9, seconds_total=1.5,
    )  # fmt: skip
