"""Corrupt good candidates at random and judge them: every one must end in a verdict, and the judge must not suffer.

    python benchmarks/judge_fuzz.py --count 1000 --seed 0

A third of the corruptions change bytes (flip, drop, repeat, cut off, splice), a third tokens (numbers, operators,
names; in C++ too), a third the syntax tree (dropped or repeated statements, endless loops, other constants or names).
Candidates are what the built-in synthesis writes for a small problem, and a program in plain torch. Printed are the
verdicts by kind, the slowest of them, and the memory of the judge. A corrupted program may well be correct: comments
are bytes too.

Exit code 1 if one evaluation raised, took longer than its budgets allow, or failed through the judge itself.
"""

from __future__ import annotations

import argparse
import ast
import collections
import random
import re
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from kernelevolve.candidates import Candidate
from kernelevolve.judge.local import LocalJudge
from kernelevolve.judge.settings import JudgeSettings
from kernelevolve.judge.verdict import Effort, VerdictKind
from kernelevolve.operators.synthesis.making import make, subject_of
from kernelevolve.problems import Problem
from kernelevolve.targets import resolve

PROBLEM = Problem(
    name="scaled-softmax",
    source="""
import torch
from torch import nn


class Model(nn.Module):
    def __init__(self, features):
        super().__init__()
        self.weight = nn.Parameter(torch.rand(features) + 0.5)

    def forward(self, x, y):
        return torch.softmax(x * self.weight + y, dim=-1), x.sum(-1)


def get_inputs():
    return [torch.randn(64, 96), torch.randn(64, 96)]


def get_init_inputs():
    return [96]
""",
)
TORCH = """import torch
from torch import nn


class ModelNew(nn.Module):
    def __init__(self, features):
        super().__init__()
        self.weight = nn.Parameter(torch.empty(features))

    def forward(self, x, y):
        scores = x * self.weight + y
        scores = scores - scores.amax(dim=-1, keepdim=True)
        powers = torch.exp(scores)
        return powers / powers.sum(dim=-1, keepdim=True), x.sum(-1)
"""
COMPILE_SECONDS, RUN_SECONDS = 20.0, 2.0
ALLOWANCE = 30.0
"""Seconds beyond the two budgets: starting a worker, several calls near their limit, and waiting for other work."""


def corrupt_bytes(text: str, rng: random.Random) -> str:
    """The text with one to four accidents of bytes."""
    data = bytearray(text.encode())
    for _ in range(rng.randint(1, 4)):
        at, length = rng.randrange(len(data)), rng.choice((1, 1, 2, 8, 64, 400))
        match rng.choice(("flip", "drop", "repeat", "cut", "splice", "noise")):
            case "flip":
                data[at] ^= 1 << rng.randrange(8)
            case "drop":
                del data[at : at + length]
            case "repeat":
                data[at:at] = data[at : at + length] * rng.randint(1, 3)
            case "cut":
                del data[max(1, at) :]
            case "splice":
                other = rng.randrange(len(data))
                data[at : at + length] = data[other : other + length]
            case "noise":
                data[at : at + length] = rng.randbytes(length)
        if not data:
            data = bytearray(b"\n")
    return data.decode(errors="replace")


def corrupt_tokens(text: str, rng: random.Random) -> str:
    """The text with one to three numbers, operators or names changed, C++ or Python: it often still builds."""
    for _ in range(rng.randint(1, 3)):
        found = list(re.finditer(r"\b\d+\b|[-+*/<>]|\b[a-z_]+_\d\b", text))
        token = rng.choice(found)
        old = token.group()
        if old.isdigit():
            new = str(rng.choice((0, 1, int(old) + 1, int(old) * 2, int(old) // 2, 2**31 - 1, 10**12)))
        elif len(old) == 1:
            new = rng.choice("+-*/<>")
        else:
            new = rng.choice([m.group() for m in found if len(m.group()) > 1])
        text = text[: token.start()] + new + text[token.end() :]
    return text


class _TreeCorruption(ast.NodeTransformer):
    """Changes about one node in ``rarity``."""

    def __init__(self, rng: random.Random, rarity: int) -> None:
        self._rng, self._rarity = rng, rarity

    def _hit(self) -> bool:
        return self._rng.randrange(self._rarity) == 0

    def visit_Constant(self, node: ast.Constant) -> ast.AST:
        if not self._hit():
            return node
        if isinstance(node.value, str):
            return ast.Constant(corrupt_bytes(node.value, self._rng) if node.value else "?")
        return ast.Constant(self._rng.choice((0, 1, -1, 2**31, 2**63, 0.5, float("nan"), None, True, "text", b"")))

    def visit_BinOp(self, node: ast.BinOp) -> ast.AST:
        self.generic_visit(node)
        if self._hit():
            node.op = self._rng.choice((ast.Add(), ast.Sub(), ast.Mult(), ast.Div(), ast.FloorDiv(), ast.Pow()))
        return node

    def visit_Name(self, node: ast.Name) -> ast.AST:
        if self._hit():
            node.id = self._rng.choice(("x", "y", "self", "torch", "None", "print", "len", "nobody", "_kernels"))
        return node

    def visit_Call(self, node: ast.Call) -> ast.AST:
        self.generic_visit(node)
        if self._hit():
            return self._rng.choice((ast.Constant(None), node.func, *node.args))
        return node

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.AST:
        self.generic_visit(node)
        if self._hit() and len(node.body) > 1:
            at = self._rng.randrange(len(node.body))
            node.body[at : at + 1] = self._rng.choice(
                ([], [node.body[at]] * 2, [ast.While(ast.Constant(1), [ast.Pass()], [])])
            )
            node.body = node.body or [ast.Pass()]
        return node


def corrupt_tree(text: str, rng: random.Random) -> str:
    """The program with some nodes of its syntax tree changed."""
    for _ in range(20):
        tree = _TreeCorruption(rng, rng.choice((20, 60, 150))).visit(ast.parse(text))
        try:
            changed = ast.unparse(ast.fix_missing_locations(tree))
        except (ValueError, TypeError, AttributeError, RecursionError):
            continue
        if changed != ast.unparse(ast.parse(text)):
            return changed
    return corrupt_bytes(text, rng)


def good_candidates(target: str) -> list[Candidate]:
    """Programs that are correct as they are."""
    subject = subject_of(PROBLEM, target)
    assert subject is not None
    device = resolve(target)
    written = [
        make(subject, target, device.facts(), {}, random.Random(seed), 0.35 * (seed > 0))[0] for seed in range(4)
    ]
    return [*{c.id: c for c in written}.values(), Candidate(source=TORCH, language="pytorch")]


def memory() -> int:
    """Resident bytes of this process."""
    fields = Path("/proc/self/statm").read_text().split()
    return int(fields[1]) * 4096


def main() -> int:
    """Judge, count, print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--target", default="cpu")
    parser.add_argument("--count", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    rng = random.Random(options.seed)
    settings = JudgeSettings(compile_seconds=COMPILE_SECONDS, run_seconds=RUN_SECONDS, baselines=("eager",))
    kinds: collections.Counter[str] = collections.Counter()
    ways: dict[str, Callable[[str, random.Random], str]] = {
        "bytes": corrupt_bytes,
        "tokens": corrupt_tokens,
        "tree": corrupt_tree,
    }
    slowest, complaints, sizes = 0.0, [], []
    with tempfile.TemporaryDirectory() as place:
        judge = LocalJudge(PROBLEM, resolve(options.target), workspace=Path(place), settings=settings)
        try:
            candidates = good_candidates(options.target)
            for candidate in candidates:
                verdict = judge.evaluate(candidate, Effort.SCREEN)
                if not verdict.correct:
                    complaints.append(f"a good candidate is {verdict.kind}: {verdict.reason}")
            for number in range(options.count):
                way = list(ways)[number % len(ways)]
                good = rng.choice(candidates)
                bad = Candidate(source=ways[way](good.source, rng), language=good.language, config=good.config)
                start = time.perf_counter()
                verdict = judge.evaluate(bad, Effort.SCREEN)
                seconds = time.perf_counter() - start
                slowest = max(slowest, seconds)
                kinds[f"{way}: {verdict.kind}"] += 1
                if verdict.kind is VerdictKind.INFRASTRUCTURE:
                    complaints.append(f"number {number} ({way}): {verdict.reason}")
                if seconds > COMPILE_SECONDS + 4 * RUN_SECONDS + ALLOWANCE:
                    complaints.append(f"number {number} ({way}) took {seconds:.0f} s: {verdict.kind}, {verdict.reason}")
                if number % 100 == 99 or number == 0:
                    sizes.append(memory())
                    print(f"{number + 1} judged, {sizes[-1] >> 20} MiB", file=sys.stderr, flush=True)
            again = judge.evaluate(candidates[0], Effort.SCREEN)
            if not again.correct:
                complaints.append(f"afterwards a good candidate is {again.kind}: {again.reason}")
        finally:
            judge.close()
    for kind, count in sorted(kinds.items()):
        print(f"{kind:<28}{count:>6}")
    print(f"slowest {slowest:.1f} s; memory {sizes[0] >> 20} MiB after the first, {sizes[-1] >> 20} MiB at the end")
    for complaint in complaints:
        print(f"COMPLAINT {complaint}")
    return 1 if complaints else 0


if __name__ == "__main__":
    sys.exit(main())
