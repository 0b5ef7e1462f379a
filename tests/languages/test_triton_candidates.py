"""Triton: autotune lists become tunables, and kernels are examined without a GPU."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from kernelevolve.candidates import Candidate, Choice, Config
from kernelevolve.candidates.structure import materialise, read_space
from kernelevolve.errors import InvalidCandidate
from kernelevolve.languages.build_cache import BuildError
from kernelevolve.languages.triton_autotune import declare_autotune

pytest.importorskip("triton")

CANDIDATE = '''"""A candidate that would time itself, é."""
import torch
import triton
import triton.language as tl


@triton.autotune(
    configs=[
        triton.Config({"BLOCK": 256, "KEEP": 1}, num_warps=8),
        triton.Config({"BLOCK": 64, "KEEP": 1}, num_warps=4, num_stages=2),
    ],
    key=["n"],
)
@triton.jit
def double(x, y, n, BLOCK: tl.constexpr, KEEP: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y + at, tl.load(x + at, mask=at < n) * 2, mask=at < n)


class ModelNew(torch.nn.Module):
    def forward(self, x):
        y = torch.empty_like(x)
        double[lambda meta: (triton.cdiv(x.numel(), meta["BLOCK"]),)](x, y, x.numel())
        return y
'''


def test_the_list_becomes_tunables_with_seeds() -> None:
    declared = declare_autotune(CANDIDATE)
    space = read_space(declared)
    assert space.tunables == {
        "BLOCK": Choice(64, 256, default=256),
        "num_warps": Choice(4, 8, default=8),
        "num_stages": Choice(2, 3, default=3),
    }
    assert space.seeds == (
        {"BLOCK": 256, "num_warps": 8, "num_stages": 3},
        {"BLOCK": 64, "num_warps": 4, "num_stages": 2},
    )
    assert all(map(space.allows, space.seeds))
    assert declared.startswith('"""A candidate that would time itself, é."""\nimport torch\n')
    assert '"KEEP": 1' in declared, "what does not vary stays as it was"
    assert declare_autotune(declared) == declared


def test_it_runs_with_the_configuration_under_test(tmp_path: Path) -> None:
    """In the interpreter, where an autotuner with several configurations fails for want of a device."""
    declared = declare_autotune(CANDIDATE)
    config: Config = {"BLOCK": 64, "num_warps": 8, "num_stages": 2}
    text = materialise(Candidate(source=declared, language="triton", config=config))
    check = (
        "import torch\nx = torch.randn(300)\nassert torch.equal(ModelNew()(x), 2 * x)\n"
        "print([(c.kwargs, c.num_warps, c.num_stages) for c in double.configs])\n"
    )
    (tmp_path / "candidate.py").write_text(text + check)
    environment = {**os.environ, "TRITON_INTERPRET": "1", "TRITON_CACHE_DIR": str(tmp_path)}
    ran = subprocess.run(
        [sys.executable, str(tmp_path / "candidate.py")], capture_output=True, text=True, env=environment, check=False
    )
    assert ran.stdout.strip() == "[({'BLOCK': 64, 'KEEP': 1}, 8, 2)]", ran.stderr


@pytest.mark.parametrize(
    ("configs", "expected"),
    [
        (
            "[triton.Config({'B': b}, num_warps=w) for b in (32, 64) for w in [2, 4] if b * w <= 128]",
            [(32, 2), (32, 4), (64, 2)],
        ),
        ("[triton.Config({'B': 2**i}, 4) for i in range(5, 7)]", [(32, 4), (64, 4)]),
        ("CONFIGS", [(16, 4), (32, 8)]),
        ("make([2, 8])", [(16, 2), (16, 8)]),
        ("CONFIGS + [Config(kwargs={'B': 64}, num_warps=1)]", [(16, 4), (32, 8), (64, 1)]),
    ],
)  # fmt: skip
def test_how_lists_are_written(configs: str, expected: list[tuple[int, int]]) -> None:
    source = f"""
import triton
from triton import Config
CONFIGS = [triton.Config({{"B": 16}}, num_warps=4), triton.Config({{"B": 32}}, num_warps=8)]
def make(warps):
    return [triton.Config({{"B": 16}}, num_warps=w) for w in warps]
@triton.autotune({configs}, ["n"])
@triton.jit
def k(x, n, B): pass
"""
    space = read_space(declare_autotune(source))
    constant = {"B": expected[0][0], "num_warps": expected[0][1]}
    seeds = [{**constant, **seed} for seed in space.seeds]
    assert [(seed["B"], seed["num_warps"]) for seed in seeds] == expected


def test_two_kernels_and_tunables_that_were_there() -> None:
    source = """
import triton
from kernelevolve.candidates.space import Bool, PowerOfTwo, TunableSpace
TUNABLES = TunableSpace({"B": PowerOfTwo(1, 8, 2), "EVEN": Bool(True)}, constraints=("B <= 4",), seeds=({"B": 4},))
CONFIG = TUNABLES.default
@triton.autotune(configs=[triton.Config({"B": 1}), triton.Config({"B": 2})], key=[])
@triton.jit
def first(x, B): pass
@triton.autotune(configs=[triton.Config({"B": 3}), triton.Config({"B": 4})], key=[])
@triton.jit
def second(x, B): pass
"""
    declared = declare_autotune(source)
    space = read_space(declared)
    assert list(space.tunables) == ["B", "EVEN", "first_B", "second_B"]
    assert space.constraints == ("B <= 4",)
    assert space.seeds == ({"B": 4}, {"first_B": 1}, {"first_B": 2}, {"second_B": 3}, {"second_B": 4})
    scope: dict[str, Any] = {}
    exec(declared.partition("@triton")[0], scope)  # the declaration itself runs
    assert scope["TUNABLES"] == space


@pytest.mark.parametrize(
    "source", ["import torch\n", "import triton\n@triton.autotune([triton.Config(f())], [])\ndef k(): pass\n"]
)
def test_nothing_to_declare(source: str) -> None:
    assert declare_autotune(source) == source


@pytest.mark.parametrize(
    ("configs", "words"),
    [
        ("read_configs('file')", "cannot be followed"),
        ("[triton.Config({'B': os.cpu_count()}), triton.Config({'B': 1})]", "cannot be followed"),
        ("[triton.Config({'B': 1}), triton.Config({'C': 1})]", "different constants"),
        ("[triton.Config({'B': 1}, pre_hook=f), triton.Config({'B': 2}, pre_hook=g)]", "pre_hook"),
        ("[triton.Config({'B': i}) for i in range(10**9)]", "cannot be followed"),
        ("[triton.Config({'B': i + j + k}) for i in range(99) for j in range(99) for k in range(99)]", "too many"),
        ("[triton.Config({'B': 9**9**9}), triton.Config({'B': 1})]", "plain arithmetic"),
        ("LOOP", "RecursionError|recursion|not a literal"),
    ],
)
def test_what_cannot_be_read_is_named_with_its_line(configs: str, words: str) -> None:
    source = f"import triton\nLOOP = LOOP\n@triton.autotune({configs}, [])\n@triton.jit\ndef k(x, B): pass\n"
    with pytest.raises(InvalidCandidate, match=words) as caught:
        declare_autotune(source)
    assert caught.value.line == 3
    assert "on k cannot be read" in caught.value.problem


def _kernels(place: Path) -> Any:
    """A module of kernels: Triton reads their text from a file."""
    import importlib.util

    path = place / "kernels.py"
    path.write_text(
        "import triton\nimport triton.language as tl\n"
        "@triton.jit\ndef product(a, b, c, M: tl.constexpr, N: tl.constexpr, K: tl.constexpr):\n"
        "    x = tl.load(a + tl.arange(0, M)[:, None] * K + tl.arange(0, K)[None, :])\n"
        "    y = tl.load(b + tl.arange(0, K)[:, None] * N + tl.arange(0, N)[None, :])\n"
        "    tl.store(c + tl.arange(0, M)[:, None] * N + tl.arange(0, N)[None, :], tl.dot(x, y))\n"
        "@triton.jit\ndef wrong(a, M: tl.constexpr):\n    tl.store(a, missing)\n"
    )
    spec = importlib.util.spec_from_file_location("kernels", path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.skipif(os.environ.get("TRITON_INTERPRET") == "1", reason="the interpreter compiles nothing")
def test_resources_without_a_gpu(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from kernelevolve.languages.toolchain.triton_aot import compile_report

    monkeypatch.setenv("TRITON_CACHE_DIR", str(tmp_path / "cache"))
    kernels = _kernels(tmp_path)
    signature = {"a": "*fp16", "b": "*fp16", "c": "*fp32"}
    constants = {"M": 32, "N": 32, "K": 32}
    report = compile_report(kernels.product, signature=signature, constants=constants, capability=80)
    assert report.arch == "sm_80" and report.registers > 16 and report.fits
    assert report.shared_bytes >= 32 * 32 * 2, "operands of a product go through shared memory"
    with pytest.raises(BuildError, match="missing is not defined"):
        compile_report(kernels.wrong, signature={"a": "*fp32"}, constants={"M": 1})
