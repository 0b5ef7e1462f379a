"""Bad problem files: one sentence with file, line and fix, and never a traceback."""

from __future__ import annotations

import textwrap
from pathlib import Path

import pytest

from kernelevolve.errors import InvalidProblem
from kernelevolve.problems import Problem
from kernelevolve.problems.instance import load_instance
from kernelevolve.problems.loaders import load_problem

GOOD = """
import torch
from torch import nn

class Model(nn.Module):
    def __init__(self, features):
        super().__init__()
        self.linear = nn.Linear(features, 4)

    def forward(self, x):
        return self.linear(x)

def get_inputs():
    return [torch.rand(3, 8)]

def get_init_inputs():
    return [8]
"""


def write(folder: Path, source: str) -> Path:
    path = folder / "problem.py"
    path.write_text(textwrap.dedent(source))
    return path


def refusal(path: Path) -> InvalidProblem:
    with pytest.raises(InvalidProblem) as caught:
        load_instance(load_problem(path), "cpu")
    assert "\n" not in caught.value.sentence
    assert caught.value.fix
    assert caught.value.path == path
    return caught.value


def test_the_file_that_the_others_are_made_of_is_good(tmp_path: Path) -> None:
    assert load_instance(load_problem(write(tmp_path, GOOD)), "cpu").workloads


def test_missing_file(tmp_path: Path) -> None:
    assert "no such problem file" in refusal(tmp_path / "absent.py").problem


def test_directory(tmp_path: Path) -> None:
    assert "directory" in refusal(tmp_path).problem


def test_not_text(tmp_path: Path) -> None:
    path = tmp_path / "problem.py"
    path.write_bytes(b"\xff\xfe\x00")
    assert "cannot be read as text" in refusal(path).problem


def test_a_name_that_is_neither_file_nor_shipped() -> None:
    with pytest.raises(InvalidProblem, match="ranking/pffn"):
        load_problem("no_such_thing")
    with pytest.raises(InvalidProblem, match=r"the suite ranking has no problem 'nothing'; use one of: .*map_id"):
        load_problem("ranking/nothing")


# (what is replaced, by what, words of the refusal, the text of the line it names)
CASES = {
    "syntax": ("return [8]", "return [8", "not valid Python", "return [8"),
    "missing package": (
        "import torch\n",
        "import torch\nimport no_such_package_xyz\n",
        "no_such_package_xyz",
        "import no_s",
    ),
    "missing submodule": ("import torch\n", "import torch\nimport torch.no_such\n", "torch.no_such", "import torch.no"),
    "raises at import": ("def get_inputs", "1 / 0\ndef get_inputs", "ZeroDivisionError", "1 / 0"),
    "no Model": ("class Model", "class Modell", "no class Model", ""),
    "Model without a base": ("(nn.Module)", "", "not a torch.nn.Module", "class Model"),
    "Model of another kind": ("(nn.Module)", "(dict)", "not a torch.nn.Module class", "class Model"),
    "Model a function": ("class Model(nn.Module):", "def Model(features):", "is a function", "def Model"),
    "no get_inputs": ("def get_inputs", "def get_input", "no function get_inputs()", ""),
    "get_inputs not a function": ("def get_inputs():\n    return", "get_inputs =", "get_inputs is not a function", ""),
    "get_inputs with arguments": ("get_inputs()", "get_inputs(n, m=2)", "needs the argument 'n'", "def get_inputs"),
    "get_inputs no list": ("[torch.rand(3, 8)]", "torch.rand(3, 8)", "returns Tensor, not a list", "def get_inputs"),
    "get_inputs raises": ("torch.rand(3, 8)", "torch.rand(3, -8)", "get_inputs() fails", "return [torch.rand"),
    "too many inputs": (
        "torch.rand(3, 8)",
        "torch.rand(3, 8), 1",
        "gives 2 arguments, but Model.forward takes (x)",
        "def get_in",
    ),
    "too few inputs": (
        "forward(self, x)",
        "forward(self, x, y)",
        "gives 1 arguments, but Model.forward takes (x, y)",
        "def get_in",
    ),
    "constructor arity": ("return [8]", "return []", "the constructor of Model takes (features)", "def get_init"),
    "constructor raises": ("return [8]", "return ['8']", "Model cannot be constructed: TypeError", "self.linear ="),
    "init inputs no list": ("return [8]", "return 8", "get_init_inputs() returns int, not a list", "def get_init"),
    "shapes do not fit": ("torch.rand(3, 8)", "torch.rand(3, 9)", "cannot be multiplied", "return self.linear(x)"),
    "no tensor": ("return self.linear(x)", "return 3.0", "returns no tensor", "class Model"),
    "integer inputs": ("torch.rand(3, 8)", "torch.ones(3, 8, dtype=torch.long)", "dtype", "return self.linear(x)"),
    "tolerance": ("class Model", "TOLERANCE = {'kk': 1}\nclass Model", "there is no field 'kk'", "TOLERANCE"),
    "tolerance range": ("class Model", "TOLERANCE = {'k': -1}\nclass Model", "greater than 0", "TOLERANCE"),
}


@pytest.mark.parametrize("case", CASES)
def test_refused_with_line(tmp_path: Path, case: str) -> None:
    old, new, words, line = CASES[case]
    assert old in GOOD
    path = write(tmp_path, GOOD.replace(old, new, 1))
    refused = refusal(path)
    assert words in refused.sentence
    if line:
        assert refused.line is not None
        assert line in path.read_text().splitlines()[refused.line - 1]


WORKLOADS = {
    "no list": ("return 3", "does not return a list of workloads"),
    "no search": ("return [Workload(name='a', role='stress')]", "no workload has the role 'search'"),
    "twice": ("return [Workload(name='a'), Workload(name='a')]", "two workloads are named 'a'"),
    "axis": ("return [Workload(name='a', axes={'rows': 3})]", "axis 'rows', which get_inputs() does not take"),
    "dtype": ("return [Workload(name='a', dtype='float17')]", "the dtype 'float17'"),
    "integer dtype": ("return [Workload(name='a', dtype='int64')]", "the dtype 'int64'"),
}


@pytest.mark.parametrize("case", WORKLOADS)
def test_workloads_that_cannot_be_used(tmp_path: Path, case: str) -> None:
    body, words = WORKLOADS[case]
    path = write(tmp_path, f"{GOOD}\nfrom kernelevolve.problems import Workload\n\ndef get_workloads():\n    {body}\n")
    refused = refusal(path)
    assert words in refused.sentence
    assert refused.line is not None
    assert path.read_text().splitlines()[refused.line - 1].startswith("def get_workloads")


def test_a_dtype_that_the_reference_lacks_names_the_workload_and_the_line(tmp_path: Path) -> None:
    source = GOOD.replace("return self.linear(x)", "return torch.linalg.inv(x[:, :3])")
    source += "\nfrom kernelevolve.problems import Workload\ndef get_workloads():\n"
    path = write(
        tmp_path, source + "    return [Workload(name='a'), Workload(name='half', role='stress', dtype='float16')]\n"
    )
    refused = refusal(path)
    assert "workload 'half' in float16" in refused.problem
    assert "dtype" in refused.fix
    assert refused.line is not None
    assert "linalg.inv" in path.read_text().splitlines()[refused.line - 1]


def test_lines_hold_under_overrides(tmp_path: Path) -> None:
    source = "size = (\n    8\n)\n" + GOOD.replace("torch.rand(3, 8)", "torch.rand(3, size)")
    path = write(tmp_path, source)
    with pytest.raises(InvalidProblem) as caught:
        load_instance(load_problem(path, overrides={"size": 9}), "cpu")
    assert caught.value.line is not None
    assert "return self.linear(x)" in path.read_text().splitlines()[caught.value.line - 1]


def test_a_text_without_a_file_is_named_instead() -> None:
    with pytest.raises(InvalidProblem, match=r"^mine:11: the reference fails"):
        load_instance(Problem(name="mine", source=GOOD.replace("torch.rand(3, 8)", "torch.rand(3, 9)")), "cpu")


def test_a_problem_too_large_for_the_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = write(tmp_path, GOOD.replace("torch.rand(3, 8)", "torch.empty(1 << 50, 8)"))
    refused = refusal(path)
    assert "--scale" in refused.fix and refused.line is not None

    def full(*_: object) -> None:
        raise RuntimeError("DefaultCPUAllocator: can't allocate memory: you tried to allocate 4294967296 bytes.")

    monkeypatch.setattr("kernelevolve.problems.instance.distribute_weights", full)
    refused = refusal(write(tmp_path, GOOD))
    assert "does not fit the memory" in refused.problem and "--scale" in refused.fix
