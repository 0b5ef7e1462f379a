"""Verdicts per minute: this judge and KernelBench's evaluator on the same candidates, one after the other, in one run.

    git clone https://github.com/ScalingIntelligence/KernelBench /tmp/KernelBench
    python benchmarks/judge_throughput.py --kernelbench /tmp/KernelBench

Candidates are what the built-in synthesis writes in Triton for a few problems of KernelBench, and kernels in CUDA C++
for two of them, each in several configurations. Every one is a file that both judges can load.

KernelBench's evaluator is called as its own script does: a new process for each candidate (a crash must not take the
next one with it), five correctness trials, a hundred timed calls of candidate and reference. It is given the compile
cache of nobody. ``--in-process`` calls it for all candidates in one process instead, which is its best case and which
no search can use. This judge screens, one judge a problem as in a search, with several candidates in flight: other
checks, baselines and clocks than theirs, more of them (docs/judge.md). Everything is counted: start of the judge,
compilation of baselines, goldens.

Their evaluator needs an NVIDIA GPU. Without one only this judge's rate is printed.
"""

from __future__ import annotations

import argparse
import json
import random
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import chain
from pathlib import Path

from kernelevolve.candidates import Candidate
from kernelevolve.candidates.structure import materialise, read_space
from kernelevolve.judge.local import LocalJudge
from kernelevolve.judge.settings import JudgeSettings
from kernelevolve.judge.verdict import Effort
from kernelevolve.operators.synthesis.making import make, subject_of
from kernelevolve.problems.loaders import load_problem
from kernelevolve.targets import resolve

PROBLEMS = ("level1/88_MinGPTNewGelu.py", "level1/12_Matmul_with_diagonal_matrices_.py", "level1/40_LayerNorm.py")
CUDA = {
    "level1/88_MinGPTNewGelu.py": (
        "forward(self, x)", "x = x.contiguous(); y = torch.empty_like(x); n = x.numel()", "[x, y, n]",
        "const float* x, float* y, long long n",
        "float v = x[i]; y[i] = 0.5f * v * (1.0f + tanhf(0.7978845608028654f * (v + 0.044715f * v * v * v)));",
    ),
    "level1/12_Matmul_with_diagonal_matrices_.py": (
        "forward(self, a, b)", "a, b = a.contiguous(), b.contiguous(); y = torch.empty_like(b); n = b.numel()",
        "[a, b, y, n, b.shape[1]]", "const float* a, const float* b, float* y, long long n, int columns",
        "y[i] = a[i / columns] * b[i];",
    ),
}  # fmt: skip
"""Head of forward, its first lines, arguments of the kernel, its parameters, and what it does for element i."""
CUDA_FILE = '''import torch
from kernelevolve.languages import cuda

KERNEL = cuda.build(r"""
extern "C" __global__ void kernel(%(parameters)s) {
    long long step = (long long)gridDim.x * blockDim.x;
    for (long long i = blockIdx.x * (long long)blockDim.x + threadIdx.x; i < n; i += step) { %(body)s }
}
""").kernel("kernel")


class ModelNew(torch.nn.Module):
    def %(head)s:
        %(lines)s
        KERNEL.launch(min(-(-n // %(threads)d), %(blocks)d), %(threads)d, %(arguments)s)
        return y
'''
THEIRS = """
import json, sys, time, types
# Imported beside the evaluator, and unused by it.
for name in ("openai", "litellm", "dotenv", "tqdm", "requests", "datasets"):
    try:
        __import__(name)
    except ImportError:
        module = types.ModuleType(name)
        for attribute in ("OpenAI", "completion", "load_dotenv", "tqdm", "load_dataset", "Dataset"):
            setattr(module, attribute, lambda *arguments, **named: None)
        sys.modules[name] = module
sys.path.insert(0, sys.argv[1])
import torch
from kernelbench.eval import eval_kernel_against_ref
problem = open(sys.argv[2]).read()
for path in sys.argv[3:]:
    start = time.perf_counter()
    result = eval_kernel_against_ref(problem, open(path).read(), measure_performance=True, num_correct_trials=5,
        num_perf_trials=100, backend="triton", device=torch.device("cuda:0"))
    print("RESULT", json.dumps([bool(result and result.correctness), time.perf_counter() - start]), flush=True)
"""


@dataclass
class Rate:
    """How one judge fared on one list of candidates."""

    verdicts: int
    correct: int
    seconds: float

    @property
    def per_minute(self) -> float:
        """Verdicts in a minute."""
        return 60 * self.verdicts / self.seconds


def triton_candidates(path: Path, target: str, count: int) -> list[Candidate]:
    """What the synthesis writes for a problem, in different configurations."""
    subject = subject_of(load_problem(path), target)
    if subject is None:
        raise SystemExit(f"{path} cannot be captured as a graph")
    facts = resolve(target).facts()
    found: dict[str, Candidate] = {}
    for seed in range(20 * count):
        rng = random.Random(seed)
        candidate, _ = make(subject, target, facts, {}, rng, 0.6 * (seed > 0))
        if seed:
            candidate = candidate.with_config(read_space(candidate.source).random(rng))
        found.setdefault(materialise(candidate), candidate)
        if len(found) == count:
            break
    return list(found.values())


def cuda_candidates(name: str, count: int) -> list[Candidate]:
    """A kernel in CUDA C++ with different launch shapes."""
    head, lines, arguments, parameters, body = CUDA[name]
    threads_first = (256, 128, 512, 1024)
    every = (*threads_first, *(threads for threads in range(64, 1024, 32) if threads not in threads_first))
    shapes = [(threads, blocks) for blocks in (1 << 20, 4096, 1056, 2112, 528) for threads in every][:count]
    return [
        Candidate(
            source=CUDA_FILE
            % {
                "head": head, "lines": lines, "arguments": arguments, "parameters": parameters, "body": body,
                "threads": threads, "blocks": blocks,
            },
            language="cuda",
        )
        for threads, blocks in shapes
    ]  # fmt: skip


def ours(path: Path, target: str, candidates: list[Candidate], in_flight: int) -> Rate:
    """This judge, from nothing to the last verdict."""
    start = time.perf_counter()
    with tempfile.TemporaryDirectory() as place:
        settings = JudgeSettings(screen_all_baselines=False)  # As a search screens.
        judge = LocalJudge(load_problem(path), resolve(target), workspace=Path(place), settings=settings)
        try:
            with ThreadPoolExecutor(in_flight) as pool:
                verdicts = list(pool.map(lambda candidate: judge.evaluate(candidate, Effort.SCREEN), candidates))
            seconds = time.perf_counter() - start
        finally:
            judge.close()
    for verdict in verdicts:
        if not verdict.correct:
            print(f"  {verdict.kind}: {verdict.reason[:140]}", file=sys.stderr)
    running, building = (sum(getattr(v, f"seconds_{part}") for v in verdicts) for part in ("running", "building"))
    print(f"  {seconds:.1f} s for {len(verdicts)}: {running:.1f} running, {building:.1f} building", file=sys.stderr)
    return Rate(len(verdicts), sum(verdict.correct for verdict in verdicts), seconds)


def theirs(checkout: Path, path: Path, candidates: list[Candidate], *, in_process: bool) -> Rate:
    """KernelBench's evaluator."""
    with tempfile.TemporaryDirectory() as place:
        files = []
        for number, candidate in enumerate(candidates):
            file = Path(place) / f"candidate_{number}.py"
            file.write_text(materialise(candidate))
            files.append(str(file))
        correct, start = 0, time.perf_counter()
        for batch in [files] if in_process else [[file] for file in files]:
            command = [sys.executable, "-c", THEIRS, str(checkout / "src"), str(path), *batch]
            done = subprocess.run(command, capture_output=True, text=True, check=False)
            lines = [line for line in done.stdout.splitlines() if line.startswith("RESULT")]
            if not lines:
                print(done.stdout[-800:] + done.stderr[-800:], file=sys.stderr)
            correct += sum(json.loads(line.removeprefix("RESULT"))[0] for line in lines)
        return Rate(len(files), correct, time.perf_counter() - start)


def main() -> int:
    """Judge by both, print the rates and their ratio."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--target", default="nvidia")
    parser.add_argument("--kernelbench", type=Path, required=True, help="a checkout of KernelBench")
    parser.add_argument(
        "--count", type=int, default=12, help="candidates for each problem and language; a search judges hundreds"
    )
    parser.add_argument(
        "--theirs", type=int, default=3, help="so many of each language are put to KernelBench's evaluator"
    )
    parser.add_argument("--problems", type=int, default=len(PROBLEMS), help="only the first so many problems")
    parser.add_argument("--in-flight", type=int, default=4, help="candidates that this judge has in work at once")
    parser.add_argument("--in-process", action="store_true", help="their evaluator in one process for all candidates")
    options = parser.parse_args()
    on_gpu = options.target == "nvidia"
    totals: list[tuple[Rate, Rate | None]] = []
    for name in PROBLEMS[: options.problems]:
        path = options.kernelbench / "KernelBench" / name
        lists = [triton_candidates(path, options.target, options.count)]
        if on_gpu and name in CUDA:
            lists.append(cuda_candidates(name, options.count))
        mine, other = ours(path, options.target, list(chain(*lists)), options.in_flight), None
        said = " + ".join(f"{len(candidates)} {candidates[0].language}" for candidates in lists)
        line = f"{name:<46}{said}: {mine.correct}/{mine.verdicts} correct, {mine.per_minute:6.1f} a minute"
        if on_gpu:
            some = [candidate for candidates in lists for candidate in candidates[: options.theirs]]
            other = theirs(options.kernelbench, path, some, in_process=options.in_process)
            line += f"; KernelBench {other.correct}/{other.verdicts} correct, {other.per_minute:5.1f} a minute"
            line += f"; {mine.per_minute / other.per_minute:5.1f}x"
        totals.append((mine, other))
        print(line, flush=True)
    seconds = sum(mine.seconds for mine, _ in totals)
    rate = 60 * sum(mine.verdicts for mine, _ in totals) / seconds
    print(f"all: {rate:.1f} verdicts a minute on {resolve(options.target).device_name()}")
    if on_gpu:
        others = [other for _, other in totals if other is not None]
        their_rate = 60 * sum(o.verdicts for o in others) / sum(o.seconds for o in others)
        print(f"KernelBench: {their_rate:.1f}; ratio {rate / their_rate:.1f}x")
    return 0


if __name__ == "__main__":
    sys.exit(main())
