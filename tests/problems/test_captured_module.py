"""Modules and functions with example inputs, written out as problems."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
import textwrap
from collections import OrderedDict
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import torch
from torch import nn

from kernelevolve.errors import InvalidProblem
from kernelevolve.problems import Problem, Workload
from kernelevolve.problems.instance import Instance, load_instance
from kernelevolve.problems.loaders import from_module
from kernelevolve.problems.outputs import flatten_outputs
from kernelevolve.problems.payload import redraw

AS_WRITTEN = Workload(name="w")


class Batch(NamedTuple):
    values: torch.Tensor
    ids: torch.Tensor


class Tower(nn.Module):
    """Takes nested containers and a keyword."""

    def __init__(self) -> None:
        super().__init__()
        self.table = nn.Embedding(7, 4)
        self.norm = nn.BatchNorm1d(4)

    def forward(self, batch: Batch, extra: dict[str, Any], *, scale: torch.Tensor) -> dict[str, torch.Tensor]:
        rows = self.table(batch.ids) + batch.values + extra["bias"][0]
        return {"normed": self.norm(rows) * scale, "rows": rows ** extra["power"]}


def tower_inputs() -> tuple[Any, ...]:
    extra = OrderedDict(bias=[torch.randn(4)], power=2)
    return Batch(torch.rand(6, 4), torch.tensor([0, 6, 3, 3, 1, 5])), extra


def tower(store: Path) -> tuple[Tower, Problem, Instance]:
    module = Tower()
    module.norm.running_mean.fill_(3.0)  # type: ignore[union-attr]
    problem = from_module(module, tower_inputs(), example_kwargs={"scale": torch.tensor(2.5)}, store_dir=store)
    return module, problem, load_instance(problem, "cpu")


def test_the_problem_computes_what_the_module_computes(tmp_path: Path) -> None:
    module, _, instance = tower(tmp_path)
    model, inputs = instance.make_model(3), instance.make_inputs(AS_WRITTEN, 1)
    assert isinstance(inputs[0], Batch) and isinstance(inputs[1], OrderedDict) and len(inputs) == 3
    ours = flatten_outputs(model(*inputs))
    theirs = flatten_outputs(module.eval()(*inputs[:2], scale=inputs[2]))
    assert [path for path, _ in ours] == ["normed", "rows"]
    assert all(torch.equal(a, b) for (_, a), (_, b) in zip(ours, theirs, strict=True))


def test_weights_keep_their_names_and_values_under_every_seed(tmp_path: Path) -> None:
    module, _, instance = tower(tmp_path)
    weights = instance.make_weights(AS_WRITTEN, 5)
    assert list(weights) == list(module.state_dict())
    assert all(torch.equal(weights[name], value) for name, value in module.state_dict().items())


def test_the_caller_s_module_is_left_alone(tmp_path: Path) -> None:
    module, _, instance = tower(tmp_path)
    assert module.training
    model = instance.make_model(0)
    with torch.no_grad():
        model.table.weight.zero_()  # type: ignore[union-attr, operator]
    assert float(module.table.weight.detach().abs().sum()) > 0


def test_the_text_is_short_and_shows_what_was_captured(tmp_path: Path) -> None:
    _, problem, _ = tower(tmp_path)
    assert problem.name == "Tower"
    assert "# 0.values: float32[6, 4]" not in problem.source
    assert "# Inputs: 0.values: float32[6, 4], 0.ids: int64[6], 1.bias.0: float32[4], 1.power: 2" in problem.source
    assert '#         return {"normed": self.norm(rows) * scale' in problem.source
    assert len(problem.source.splitlines()) < 45
    assert str(tmp_path) not in problem.source


def test_equal_modules_are_one_problem_wherever_they_are_stored(tmp_path: Path) -> None:
    module, inputs = nn.Linear(4, 2), torch.randn(3, 4)
    a, b = (from_module(module, inputs, store_dir=tmp_path / name) for name in "ab")
    assert a.digest == b.digest
    with torch.no_grad():
        module.bias.add_(1)
    assert from_module(module, inputs, store_dir=tmp_path / "a").digest != a.digest


def test_layouts_and_dtypes_survive(tmp_path: Path) -> None:
    inputs = (
        torch.randn(2, 3, 4, 5).to(memory_format=torch.channels_last),
        torch.randn(4, 6).t(),
        torch.randn(3, 1).expand(3, 4).bfloat16(),
        torch.tensor(True),
        torch.zeros(0, 2),
    )
    module = nn.Linear(2, 2).bfloat16()
    module.weight.requires_grad_(False)
    problem = from_module(lambda *x: x[0] + module.weight.sum(), inputs, store_dir=tmp_path)
    made = load_instance(problem, "cpu").make_inputs(AS_WRITTEN, 0)
    assert [t.shape for t in made] == [t.shape for t in inputs]
    assert [t.dtype for t in made] == [t.dtype for t in inputs]
    model = load_instance(from_module(module, torch.ones(1, 2).bfloat16(), store_dir=tmp_path), "cpu").make_model(0)
    assert torch.equal(model.weight, module.weight)  # type: ignore[arg-type]
    assert [p.requires_grad for p in model.parameters()] == [False, True]


def test_a_function_and_a_lambda(tmp_path: Path) -> None:
    def cap(x: torch.Tensor, limit: float = 2.0) -> torch.Tensor:
        return limit * torch.tanh(x / limit)

    x = torch.randn(5, 3)
    for function in (cap, lambda x: torch.relu(x), torch.sigmoid):
        instance = load_instance(from_module(function, [x], store_dir=tmp_path), "cpu")
        (value,) = instance.make_inputs(AS_WRITTEN, 0)
        assert torch.equal(instance.make_model(0)(value), function(value))


def test_a_damaged_or_missing_payload_is_refused(tmp_path: Path) -> None:
    problem = from_module(nn.Linear(4, 2), torch.randn(3, 4), store_dir=tmp_path)
    (path,) = problem.payload.values()
    data = bytearray(path.read_bytes())
    data[-20] ^= 1
    path.write_bytes(bytes(data))
    with pytest.raises(InvalidProblem, match="not the one that was written"):
        load_instance(problem, "cpu")
    path.unlink()
    with pytest.raises(InvalidProblem, match="the captured module is gone; capture the module again"):
        load_instance(problem, "cpu")


def test_code_that_is_not_installed_travels_in_the_payload(tmp_path: Path) -> None:
    file = tmp_path / "own_layers.py"
    file.write_text("import torch\nclass Own(torch.nn.Module):\n    def forward(self, x):\n        return x * 3\n")
    spec = importlib.util.spec_from_file_location("own_layers", file)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["own_layers"] = module
    spec.loader.exec_module(module)
    try:
        problem = from_module(nn.Sequential(module.Own()), torch.ones(2), store_dir=tmp_path / "store")
    finally:
        del sys.modules["own_layers"]
    (tmp_path / "problem.json").write_text(problem.model_dump_json())
    script = """
        import sys, torch
        from kernelevolve.problems import Problem
        from kernelevolve.problems.instance import load_instance
        model = load_instance(Problem.model_validate_json(open(sys.argv[1]).read()), "cpu").make_model(0)
        print(model(torch.ones(2)).tolist())
    """
    command = [sys.executable, "-c", textwrap.dedent(script), str(tmp_path / "problem.json")]
    found = subprocess.run(command, capture_output=True, text=True, check=True, cwd="/")
    assert found.stdout.strip() == "[3.0, 3.0]"


@pytest.mark.parametrize(
    ("what", "inputs", "words"),
    [
        (3, torch.ones(1), "neither a module nor a function"),
        (torch.relu, {"x": torch.ones(1)}, "example_inputs is a dict, not a tuple"),
        (nn.Linear(2, 2), (torch.ones(2), torch.ones(2)), "do not fit Linear"),
        (lambda x: (i for i in x), (torch.ones(2), 1), "too many positional arguments"),
        (lambda x, held=sys.stdout: x, torch.ones(2), "cannot be pickled"),
    ],
)
def test_what_cannot_be_captured_is_refused(tmp_path: Path, what: Any, inputs: Any, words: str) -> None:
    with pytest.raises(InvalidProblem, match=words) as caught:
        from_module(what, inputs, store_dir=tmp_path)
    assert caught.value.fix


def test_a_function_that_crashes_on_its_example_is_refused_when_it_is_loaded(tmp_path: Path) -> None:
    problem = from_module(lambda a, b: a @ b, (torch.ones(2, 3), torch.ones(2, 3)), store_dir=tmp_path)
    with pytest.raises(InvalidProblem, match="cannot be multiplied"):
        load_instance(problem, "cpu")


class TestRedraw:
    """Fresh values that a callable can still take."""

    @staticmethod
    def one(tensor: torch.Tensor) -> torch.Tensor:
        torch.manual_seed(0)
        (drawn,) = redraw((tensor,))
        assert isinstance(drawn, torch.Tensor)
        assert drawn.shape == tensor.shape and drawn.dtype == tensor.dtype
        assert drawn is not tensor and (drawn.data_ptr() != tensor.data_ptr() or not tensor.numel())
        return drawn

    @pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16])
    @pytest.mark.parametrize(
        "example", [torch.randn(64, 64) * 3 + 7, torch.rand(5000).pow(3), torch.randn(300_000).exp()]
    )
    def test_floats_keep_mean_deviation_and_range(self, example: torch.Tensor, dtype: torch.dtype) -> None:
        example = example.to(dtype)
        drawn = self.one(example)
        assert not torch.equal(drawn, example)
        wide, again = example.double(), drawn.double()
        assert abs(float(again.mean() - wide.mean())) < 0.1 * float(wide.std())
        assert abs(float(again.std() / wide.std()) - 1) < 0.15
        assert float(again.min()) >= float(wide.min()) and float(again.max()) <= float(wide.max())

    @pytest.mark.parametrize(
        "kept",
        [
            torch.full((9,), 0.5),
            torch.tensor(0.7),
            torch.tensor([0.0, float("-inf"), 0.0]),
            torch.tensor([0, 3, 3, 9, 12]),
            torch.arange(12).reshape(3, 4),
            torch.rand(8) > 0.5,
            torch.zeros(0),
            torch.tensor(5),
        ],
    )
    def test_constants_offsets_masks_and_scalars_are_kept(self, kept: torch.Tensor) -> None:
        assert torch.equal(self.one(kept), kept)

    def test_masks_of_floats_stay_masks(self) -> None:
        drawn = self.one((torch.rand(40, 25) > 0.3).float())
        assert set(drawn.flatten().tolist()) == {0.0, 1.0}

    def test_sorted_floats_stay_sorted(self) -> None:
        borders = torch.randn(3, 50).sort(dim=-1).values
        drawn = self.one(borders)
        assert bool((drawn.diff(dim=-1) >= 0).all()) and not torch.equal(drawn, borders)

    def test_integers_are_the_same_ones_in_another_order(self) -> None:
        ids = torch.randint(0, 50, (20, 10))
        drawn = self.one(ids)
        assert not torch.equal(drawn, ids)
        assert torch.equal(drawn.flatten().sort().values, ids.flatten().sort().values)
