"""The built-in synthesis writes programs that compute what the reference computes, for every family of operations."""

from __future__ import annotations

import importlib.util
import random
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import torch

sys.path.insert(0, str(Path(__file__).parent))
from cases import CASES, problem

from kernelevolve.candidates import Candidate
from kernelevolve.candidates.structure import read_plan, read_space
from kernelevolve.operators.synthesis.making import Subject, make, subject_of
from kernelevolve.operators.synthesis.plan import Plan
from kernelevolve.problems import Problem, Workload
from kernelevolve.problems.instance import Instance, load_instance
from kernelevolve.problems.outputs import flatten_outputs

FACTS: dict[str, str | int | float] = {"threads": 2, "simd_bytes": 64, "isa": "avx512f"}


def subject(case: Problem) -> Subject:
    found = subject_of(case, "cpu")
    assert found is not None
    return found


def made(case: Problem, choices: dict[str, str] | None = None) -> tuple[Candidate, Plan]:
    return make(subject(case), "cpu", FACTS, choices or {}, random.Random(0))


def run_module(source: str, place: Path) -> ModuleType:
    path = place / f"candidate_{abs(hash(source))}.py"
    path.write_text(source)
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def widened(value: Any) -> Any:
    if isinstance(value, torch.Tensor):
        return value.double() if value.is_floating_point() else value
    if isinstance(value, (list, tuple)):
        return type(value)(widened(v) for v in value)
    return {k: widened(v) for k, v in value.items()} if isinstance(value, dict) else value


def assert_same(candidate: Candidate, instance: Instance, place: Path, workload: Workload | None = None) -> ModuleType:
    """Run both on the same weights and inputs; the candidate may err as the reference does against float64."""
    workload = workload or instance.workloads[0]
    module = run_module(candidate.source, place)
    reference, inputs = instance.make_reference(workload, 1), instance.make_inputs(workload, 1)
    kept = [t.clone() for _, t in flatten_outputs(inputs)]
    new = module.ModelNew(*instance.init_inputs(1))
    new.load_state_dict(reference.state_dict(), strict=True)
    with torch.no_grad():
        expected, got = flatten_outputs(reference(*inputs)), flatten_outputs(new.eval()(*inputs))
        exact = _golden(reference, inputs, expected)
    assert [path for path, _ in got] == [path for path, _ in expected]
    for (path, want), (_, have), golden in zip(expected, got, exact, strict=True):
        assert (have.dtype, have.shape) == (want.dtype, want.shape), path
        if not want.is_floating_point():
            assert torch.equal(have, want), path
            continue
        assert torch.equal(have.isnan(), want.isnan()), path
        finite = golden.isfinite() & want.isfinite()
        assert torch.equal(have[~finite].nan_to_num(0.5), want[~finite].nan_to_num(0.5)), path
        scale = golden[finite].abs().max().item() if finite.any() else 0.0
        own = (want.double() - golden)[finite].abs().max().item() if finite.any() else 0.0
        error = (have.double() - golden)[finite].abs().max().item() if finite.any() else 0.0
        assert error <= max(8 * own, 32 * torch.finfo(want.dtype).eps * scale), f"{path}: {error} against {own}"
    for before, (path, after) in zip(kept, flatten_outputs(inputs), strict=True):
        assert torch.equal(before.nan_to_num(0.5), after.nan_to_num(0.5)), f"input {path} was written to"
    return module


def _golden(reference: torch.nn.Module, inputs: Any, expected: list[tuple[str, torch.Tensor]]) -> list[torch.Tensor]:
    try:
        return [t.double() for _, t in flatten_outputs(reference.double()(*widened(inputs)))]
    except RuntimeError:
        # A reference of several dtypes cannot be widened as a whole: its own results have to do.
        return [t.double() for _, t in expected]


@pytest.mark.parametrize("name", CASES)
def test_candidate_computes_what_the_reference_does(name: str, tmp_path: Path) -> None:
    candidate, plan = made(CASES[name])
    assert candidate.language == "cpp"
    assert read_plan(candidate.source) == plan.literal()
    assert_same(candidate, load_instance(CASES[name], torch.device("cpu")), tmp_path)


@pytest.mark.parametrize("name", ["perceptron", "softmax and normalisation", "attention"])
def test_every_neighbour_differs_in_one_decision_and_is_right(name: str, tmp_path: Path) -> None:
    case = CASES[name]
    first, plan = made(case)
    instance = load_instance(case, torch.device("cpu"))
    neighbors = plan.neighbors()
    assert neighbors
    for choices in random.Random(3).sample(neighbors, min(4, len(neighbors))):
        candidate, changed = made(case, choices)
        assert candidate.source != first.source
        (asked,) = (n for n, answer in choices.items() if answer != plan.choices[n])
        assert changed.choices[asked] == choices[asked]
        # What else is different are questions that arise, or no longer arise, because of this answer.
        assert all(changed.choices[n] == plan.choices[n] for n in changed.choices if n in plan.choices and n != asked)
        assert_same(candidate, instance, tmp_path)


def test_sizes_of_other_workloads_run_in_the_same_kernels(tmp_path: Path) -> None:
    case = problem(
        "rows of several sizes",
        "x\nreturn torch.softmax(x, -1) @ self.weight",
        "torch.randn(rows, 40)",
        "self.weight = nn.Parameter(torch.randn(40, 24))",
        "rows=64",
    )
    declared = case.source + (
        "\n\ndef get_workloads():\n    from kernelevolve.problems import Role, Workload\n"
        "    return [Workload(name='many'), Workload(name='few', role=Role.HELD_OUT, axes={'rows': 7}),\n"
        "            Workload(name='one', role=Role.STRESS, axes={'rows': 1})]\n"
    )
    case = Problem(name=case.name, source=declared)
    candidate, _ = made(case)
    instance = load_instance(case, torch.device("cpu"))
    module = None
    for workload in instance.workloads:
        module = assert_same(candidate, instance, tmp_path, workload)
    assert module is not None
    assert module._sizes((torch.zeros(5, 40),)) == (5,)
    assert module._sizes((torch.zeros(5, 41),)) is None
    assert module._sizes((torch.zeros(5, 40).double(),)) is None


def test_strided_inputs_and_gradients(tmp_path: Path) -> None:
    case = CASES["perceptron"]
    instance = load_instance(case, torch.device("cpu"))
    module = run_module(made(case)[0].source, tmp_path)
    reference, new = instance.make_model(0), module.ModelNew()
    new.load_state_dict(reference.state_dict())
    x = torch.randn(24, 37).t()
    with torch.no_grad():
        for want, have in zip(reference(x), new(x), strict=True):
            torch.testing.assert_close(have, want, rtol=1e-5, atol=1e-6)
    # With gradients wanted, the graph runs in torch, which can differentiate it.
    new(x)[0].sum().backward()
    assert all(p.grad is not None for p in new.parameters())


def test_weights_that_change_between_calls_are_seen(tmp_path: Path) -> None:
    case = CASES["perceptron"]
    instance = load_instance(case, torch.device("cpu"))
    module = run_module(made(case)[0].source, tmp_path)
    new, x = module.ModelNew(), torch.randn(37, 24)
    with torch.no_grad():
        for seed in (0, 1):
            reference = instance.make_model(seed)
            new.load_state_dict(reference.state_dict())
            torch.testing.assert_close(new(x)[1], reference(x)[1], rtol=1e-5, atol=1e-6)


def test_what_the_kernels_do_not_compute_is_said() -> None:
    candidate, _ = made(CASES["what stays a torch call"])
    assert "aten.sort calls the library" in candidate.source
    assert "aten.cumsum calls the library" in candidate.source


def test_numbers_are_declared(tmp_path: Path) -> None:
    candidate, _ = made(CASES["matrix products"])
    space = read_space(candidate.source)
    assert {"ROWS", "MR", "NV", "KC"} <= set(space.tunables)
    assert space.allows(candidate.config)


def test_a_problem_without_loop_form_is_left_to_torch(tmp_path: Path) -> None:
    case = problem("complex", "x\nreturn torch.view_as_real(torch.fft.fft(x))", "torch.randn(3, 8)")
    candidate, _ = made(case)
    assert_same(candidate, load_instance(case, torch.device("cpu")), tmp_path)


@pytest.mark.parametrize(
    ("forward", "inputs"),
    [
        ("x\nreturn x.sum(1)", "torch.rand(3, 8192, 70)"),  # lanes along a kept axis
        ("x\nreturn x.sum(-1)", "torch.rand(9, 200_003)"),  # lanes along the summed axis
        ("x\nreturn x.sum((1, 2))", "torch.rand(9, 300, 701)"),
        ("x\nreturn (x * 2).sum(0)", "torch.rand(9000, 3, 5)"),
    ],
)
def test_long_sums_keep_their_digits(forward: str, inputs: str, tmp_path: Path) -> None:
    case = problem("long sum", forward, inputs)
    instance = load_instance(case, "cpu")
    module = assert_same(made(case)[0], instance, tmp_path)
    (x,) = instance.make_inputs(instance.workloads[0], 1)
    model = instance.make_model(0)
    golden = model(x.double())
    errors = [(value.double() - golden).pow(2).mean().sqrt().item() for value in (model(x), module.ModelNew()(x))]
    assert errors[1] <= 4 * max(errors[0], 2**-24 * golden.abs().max().item())


@pytest.mark.parametrize("name", ["softmax and normalisation", "reductions"])
def test_every_plan_that_is_drawn_can_be_written_for_a_gpu(name: str) -> None:
    case = subject(CASES[name])
    for seed in range(12):
        candidate, _ = make(case, "nvidia", {}, {}, random.Random(seed), 0.5 * (seed > 0))
        assert "class ModelNew" in candidate.source
