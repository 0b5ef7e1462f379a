"""Instances: seeds, devices, dtypes, distributions, layouts and default workloads."""

from __future__ import annotations

import inspect
import pickle
import random
import sys
from pathlib import Path
from typing import Any

import numpy
import pytest
import torch
from torch import nn

from kernelevolve.problems import Distribution, Problem, Role, Workload
from kernelevolve.problems.instance import Instance, load_instance

AS_WRITTEN = Workload(name="w")

SOURCE = """
import random
import numpy
import torch
from torch import nn

class Model(nn.Module):
    def __init__(self, features):
        super().__init__()
        self.linear = nn.Linear(features, features)
        self.drop = nn.Dropout(0.5)
        self.register_buffer("steps", torch.zeros(1, dtype=torch.long))

    def forward(self, x, ids, options):
        return self.drop(self.linear(x)) + options["bias"][ids]

def get_inputs(rows=4):
    bias = torch.from_numpy(numpy.random.rand(5, 8).astype("float32")) + random.random()
    return [torch.rand(rows, 8), torch.randint(0, 5, (rows,)), {"bias": bias, "mask": torch.ones(3, 3).bool(), "k": 3}]

def get_init_inputs():
    return [8]
"""


def instance(source: str = SOURCE, *, check: bool = False, device: str = "cpu", **fields: Any) -> Instance:
    return load_instance(Problem(name="p", source=source, **fields), device, check=check)


def leaves(inputs: tuple[Any, ...]) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]:
    x, ids, options = inputs
    assert options["k"] == 3
    return x, ids, options["bias"], options["mask"]


def test_a_seed_gives_the_same_inputs_and_another_seed_gives_others() -> None:
    made = instance()
    first, again, other = (leaves(made.make_inputs(AS_WRITTEN, seed)) for seed in (1, 1, 2))
    assert all(torch.equal(a, b) for a, b in zip(first, again, strict=True))
    assert not any(torch.equal(first[i], other[i]) for i in range(3))


def test_making_things_leaves_the_generators_of_the_caller_alone() -> None:
    made = instance()
    torch.manual_seed(5), random.seed(5), numpy.random.seed(5)
    expected = torch.rand(1), random.random(), numpy.random.rand()
    torch.manual_seed(5), random.seed(5), numpy.random.seed(5)
    made.make_inputs(AS_WRITTEN, 1), made.make_model(2), made.make_weights(AS_WRITTEN, 3)
    assert (torch.rand(1), random.random(), numpy.random.rand()) == expected


def test_axes_reach_get_inputs() -> None:
    assert instance().make_inputs(Workload(name="w", axes={"rows": 9}), 0)[0].shape == (9, 8)


def test_only_floating_tensors_are_cast_and_redrawn() -> None:
    made = instance()
    changed = Workload(name="w", dtype="float16", distribution=Distribution(scale=3.0, shift=-1.0))
    x, ids, bias, mask = leaves(made.make_inputs(AS_WRITTEN, 1))
    x16, ids16, bias16, mask16 = leaves(made.make_inputs(changed, 1))
    assert x16.dtype is bias16.dtype is torch.float16
    assert torch.equal(x16, (x * 3 - 1).half()) and torch.equal(bias16, (bias * 3 - 1).half())
    assert torch.equal(ids, ids16) and torch.equal(mask, mask16)


def test_normal_values_replace_the_file_s_own() -> None:
    workload = Workload(name="w", axes={"rows": 5000}, distribution=Distribution(normal=True, scale=2.0, shift=0.5))
    x = instance().make_inputs(workload, 0)[0]
    assert abs(float(x.mean()) - 0.5) < 0.1 and abs(float(x.std()) - 2.0) < 0.1


def test_strided_inputs_have_equal_values_in_other_memory() -> None:
    made = instance()
    plain = leaves(made.make_inputs(AS_WRITTEN, 1))
    strided = leaves(made.make_inputs(Workload(name="w", contiguous=False), 1))
    assert all(torch.equal(a, b) for a, b in zip(plain, strided, strict=True))
    assert [t.is_contiguous() for t in strided] == [False, True, False, False]


def test_weights_follow_dtype_and_scale_and_integers_stay() -> None:
    made = instance()
    model = made.make_model(3)
    weights = made.make_weights(Workload(name="w", dtype="bfloat16", distribution=Distribution(weight_scale=2.0)), 3)
    assert list(weights) == list(model.state_dict())
    assert torch.equal(weights["linear.weight"], (2 * model.linear.weight).bfloat16())  # type: ignore[union-attr, operator]
    assert weights["steps"].dtype is torch.long
    assert made.parameter_names == {"linear.weight", "linear.bias"}


def test_the_reference_holds_the_weights_of_its_workload() -> None:
    made = instance()
    workload = Workload(name="w", dtype="float64", distribution=Distribution(fresh_statistics=True))
    state, weights = made.make_reference(workload, 4).state_dict(), made.make_weights(workload, 4)
    assert all(torch.equal(state[name], weights[name]) and state[name].dtype == weights[name].dtype for name in weights)


def test_models_are_in_eval_mode_unless_they_are_trained() -> None:
    assert not instance().make_model(0).training
    training = instance(SOURCE + "\nTRAINING = True\n")
    assert training.training and training.make_model(0).training


def test_a_file_without_get_init_inputs_has_none() -> None:
    source = SOURCE.replace("def get_init_inputs", "def unused").replace("self, features", "self, features=8")
    assert instance(source).init_inputs(0) == ()


def test_everything_is_made_on_the_device() -> None:
    source = SOURCE.replace('torch.from_numpy(numpy.random.rand(5, 8).astype("float32"))', "torch.rand(5, 8)")
    made = instance(source, device="meta")
    assert {t.device.type for t in leaves(made.make_inputs(AS_WRITTEN, 0))} == {"meta"}
    assert {p.device.type for p in made.make_model(0).parameters()} == {"meta"}


@pytest.mark.nvidia
def test_on_a_gpu_inputs_follow_the_seed_and_the_generators_are_left_alone() -> None:
    if not torch.cuda.is_available():
        pytest.skip("needs an NVIDIA GPU")
    made = instance(check=True, device="cuda")
    torch.cuda.manual_seed(1)
    expected = torch.rand(1, device="cuda")
    torch.cuda.manual_seed(1)
    first, again = (leaves(made.make_inputs(AS_WRITTEN, 7)) for _ in range(2))
    assert torch.equal(torch.rand(1, device="cuda"), expected)
    assert {t.device.type for t in first} == {"cuda"}
    assert all(torch.equal(a, b) for a, b in zip(first, again, strict=True))


def test_functions_that_ask_for_the_device_type_get_it() -> None:
    source = """
import torch
from kernelevolve.problems import Workload
SIZES = {"cpu": 3, "cuda": 300}
class Model(torch.nn.Linear):
    pass
def get_inputs(device_type):
    return [torch.ones(2, SIZES[device_type])]
def get_init_inputs(device_type="cpu"):
    return [SIZES[device_type], 1]
def get_workloads(device_type):
    return [Workload(name=device_type), {"name": "as-dict", "role": "held_out"}]
"""
    made = instance(source, check=True)
    assert made.make_inputs(AS_WRITTEN, 0)[0].shape == (2, 3)
    assert made.init_inputs(0) == (3, 1)
    assert [(w.name, w.role) for w in made.workloads] == [("cpu", Role.SEARCH), ("as-dict", Role.HELD_OUT)]


ONE_INPUT = """
import torch
class Model(torch.nn.Module):
    def forward(self, x):
        return {body}
def get_inputs():
    return [{inputs}]
"""


@pytest.mark.parametrize(
    ("body", "names"),
    [
        ("x * 2", ["as-written", "shifted", "fresh-weights", "strided", "large"]),
        ("x.log()", ["as-written", "rescaled", "fresh-weights", "strided", "large"]),
        ("x.view(-1)", ["as-written", "shifted", "fresh-weights", "large"]),
        ("x / 0", ["as-written", "shifted", "fresh-weights", "strided", "large"]),
    ],
)
def test_default_workloads_are_those_on_which_the_reference_works(body: str, names: list[str]) -> None:
    made = instance(ONE_INPUT.format(body=body, inputs="torch.rand(4, 6) + 0.1"), check=True)
    assert [workload.name for workload in made.workloads] == names
    assert [w.name for w in made.workloads if w.role is Role.SEARCH] == ["as-written"]


def test_the_text_is_a_module_that_can_be_found_inspected_and_pickled(tmp_path: Path) -> None:
    made = instance()
    model = made.make_model(0)
    assert type(model).__module__ in sys.modules
    assert "self.linear(x)" in inspect.getsource(type(model).forward)
    copy = pickle.loads(pickle.dumps(model))
    assert torch.equal(copy.linear.weight, model.linear.weight)  # type: ignore[union-attr, arg-type]
    assert type(instance().make_model(0)).__module__ != type(model).__module__


def test_inspect_shows_the_text_that_runs_not_the_file(tmp_path: Path) -> None:
    path = tmp_path / "p.py"
    path.write_text("n = 2\n" + SOURCE)
    made = instance(path.read_text(), path=path, overrides={"n": 3})
    path.write_text("# gone\n")
    assert "self.linear(x)" in inspect.getsource(type(made.make_model(0)))


def test_a_model_from_a_text_compiles() -> None:
    made = instance(ONE_INPUT.format(body="torch.relu(x) + 1", inputs="torch.randn(4, 6)"))
    model, (x,) = made.make_model(0), made.make_inputs(AS_WRITTEN, 0)
    compiled = torch.compile(model, backend="eager", fullgraph=True)
    assert torch.equal(compiled(x), model(x))


def test_a_reference_that_is_a_module_of_torch_may_be_imported() -> None:
    source = "import torch\nfrom torch.nn import ReLU as Model\ndef get_inputs():\n    return [torch.randn(3)]\n"
    assert isinstance(instance(source, check=True).make_model(0), nn.ReLU)
