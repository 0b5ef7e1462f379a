"""How long a large run takes to be opened again, and in how much memory: 100,000 nodes by default.

    python benchmarks/resume_scale.py
    python benchmarks/resume_scale.py --nodes 20000 --policies mcts

The run is written through the store's own tables, then each policy opens it in a process of its own, as ``--resume``
does: the graph, the policy and the bandit are rebuilt and the next parents selected. Reported are wall and CPU seconds
of the restore (they differ where the machine is busy), the first selection's milliseconds, and the peak resident
memory of the whole process.
"""

from __future__ import annotations

import argparse
import json
import math
import random
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import sqlalchemy as sa

from kernelevolve.candidates import Candidate
from kernelevolve.hashing import digest_json
from kernelevolve.judge.verdict import Effort, Stage, Verdict, VerdictKind
from kernelevolve.problems import Problem
from kernelevolve.search.ledger import Budget
from kernelevolve.search.policies import POLICIES
from kernelevolve.search.state import SearchState
from kernelevolve.store import Store
from kernelevolve.store.schema import NODES, VERDICTS, connect
from kernelevolve.store.store import DATABASE_NAME

_ROWS_AT_ONCE = 5000


def write_run(workspace: Path, nodes: int) -> str:
    """A run that branches as searches do: mostly from good nodes, one in five wrong, a few drafts and crossovers."""
    rng = random.Random(0)
    store = Store(workspace)
    run = store.create_run(Problem(name="scale", source="class Model: ..."), "cpu").id
    candidate = Candidate(source="ModelNew = object\n" * 200, language="cpp")
    source = store.blobs.put(candidate.source.encode())
    verdict = Verdict(candidate_id=candidate.id, kind=VerdictKind.WRONG, stage=Stage.CORRECTNESS, effort=Effort.SCREEN)
    record = json.dumps(verdict.model_dump(mode="json"))
    good: list[tuple[float, int, int]] = []
    rows, verdicts = [], []
    engine = connect(f"sqlite:///{workspace / DATABASE_NAME}")
    with engine.begin() as connection:
        for number in range(nodes):
            parents: tuple[int, ...] = ()
            best = max(rng.choice(good) for _ in range(3)) if good else None
            if best is not None and rng.random() < 0.98:
                parents = (best[1],) if rng.random() < 0.9 else (best[1], rng.choice(good)[1])
            kind = VerdictKind.CORRECT if rng.random() < 0.8 else VerdictKind.WRONG
            depth = best[2] + 1 if best is not None and parents else 0
            fitness = -math.inf
            if kind is VerdictKind.CORRECT:
                fitness = (best[0] if best is not None else 0.0) + rng.gauss(-0.02, 0.05)
                good.append((fitness, number, depth))
            structure = digest_json(["structure", number])
            rows.append(
                {
                    "run": run, "id": number, "candidate": digest_json(number), "parents": json.dumps(parents),
                    "operator": ("draft", "change", "combine")[len(parents)], "kind": kind.value, "fitness": fitness,
                    "structure": structure, "depth": depth, "niche": f"cpp|{number % 40}", "language": "cpp",
                    "source": source, "config": "{}", "own_structure": structure,
                    "artifact": digest_json(["artifact", number]), "elapsed": float(number),
                }
            )  # fmt: skip
            verdicts.append({"run": run, "node": number, "effort": "screen", "record": record})
            if len(rows) == _ROWS_AT_ONCE or number == nodes - 1:
                connection.execute(sa.insert(NODES), rows)
                connection.execute(sa.insert(VERDICTS), verdicts)
                rows, verdicts = [], []
    return run


def restore(workspace: Path, run: str, policy: str) -> None:
    """Open the run and print what that took, as JSON."""
    budget = Budget(evaluations=10**6, seconds=10**9)
    started, cpu_started = time.perf_counter(), time.process_time()
    store = Store(workspace)
    state = SearchState(store, store.run(run).id, budget, POLICIES.get(policy)())
    restored, cpu_restored = time.perf_counter(), time.process_time()
    selected = state.policy.select(state.graph, 1, random.Random(0))
    ended = time.perf_counter()
    assert selected, "nothing was selected"
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    found = {
        "nodes": len(state.graph),
        "seconds": restored - started,
        "cpu": cpu_restored - cpu_started,
        "select": ended - restored,
        "MiB": peak,
    }
    print(json.dumps(found))


def main() -> None:
    """Write a run, then open it once for every policy."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--nodes", type=int, default=100_000)
    parser.add_argument("--policies", nargs="*", default=POLICIES.names())
    parser.add_argument("--restore", nargs=3, metavar=("WORKSPACE", "RUN", "POLICY"), help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.restore:
        restore(Path(options.restore[0]), options.restore[1], options.restore[2])
        return
    with tempfile.TemporaryDirectory() as place:
        run = write_run(Path(place), options.nodes)
        size = (Path(place) / DATABASE_NAME).stat().st_size / 2**20
        print(f"{options.nodes} nodes, a database of {size:.0f} MiB\n")
        print("| policy | restore, s | CPU, s | select, ms | peak, MiB |\n|---|---|---|---|---|")
        for policy in options.policies:
            command = [sys.executable, __file__, "--restore", place, run, policy]
            found = json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout)
            assert found["nodes"] == options.nodes
            print(
                f"| {policy} | {found['seconds']:.2f} | {found['cpu']:.2f} | {1000 * found['select']:.2f} "
                f"| {found['MiB']:.0f} |",
                flush=True,
            )


if __name__ == "__main__":
    main()
