"""The comparison: exact figures, and no way past it for what only looks equal."""

from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from kernelevolve.judge import comparison
from kernelevolve.judge.comparison import StructureMismatch, compare
from kernelevolve.judge.oracle import Case, ExpectedOutput
from kernelevolve.judge.verdict import OutputError
from kernelevolve.problems import Workload

NAN, INF = math.nan, math.inf


def expect(
    golden: torch.Tensor,
    dtype: torch.dtype = torch.float32,
    limit: float = 1e-3,
    special: torch.Tensor | None = None,
    path: str = "0",
) -> ExpectedOutput:
    return ExpectedOutput(path, golden, dtype, tuple(golden.shape), 0.0, 0.0, 1.0, limit, 10 * limit, special)


def case(*expected: ExpectedOutput) -> Case:
    return Case(Workload(name="w"), 0, (), {}, (), list(expected), "fp64")


def error(expected: ExpectedOutput, output: torch.Tensor) -> OutputError:
    (found,) = compare(case(expected), {expected.path: output})
    return found


@given(st.integers(1, 50), st.integers(1, 60), st.integers(0, 2**31))
@settings(max_examples=40, deadline=None)
def test_figures_do_not_depend_on_chunks(size: int, chunk: int, seed: int) -> None:
    generator = torch.Generator().manual_seed(seed)
    golden = torch.randn(size, dtype=torch.float64, generator=generator)
    output = (golden + 0.1 * torch.randn(size, dtype=torch.float64, generator=generator)).float()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(comparison, "_CHUNK", {"cpu": chunk})
        found = error(expect(golden), output)
    difference = output.double() - golden
    assert found.rms == pytest.approx(float(difference.square().mean().sqrt()), rel=1e-12)
    assert found.max == pytest.approx(float(difference.abs().max()), rel=1e-12)
    above = [i for i in range(size) if abs(difference[i]) > found.max_limit]
    if above:
        assert found.first_index == (above[0],)


def test_names_the_first_wrong_element() -> None:
    golden = torch.zeros(3, 4, dtype=torch.float64)
    output = torch.zeros(3, 4)
    output[1, 2], output[2, 3] = 5.0, 7.0
    found = error(expect(golden), output)
    assert not found.passed
    assert (found.first_index, found.first_got, found.first_expected, found.max) == ((1, 2), 5.0, 0.0, 7.0)


def test_many_small_errors_fail_by_their_rms() -> None:
    found = error(expect(torch.zeros(100, dtype=torch.float64)), torch.full((100,), 5e-3))
    assert found.max <= found.max_limit
    assert not found.passed
    assert found.first_index == (0,)


def test_a_strided_output_is_compared_by_value() -> None:
    golden = torch.randn(6, 8, dtype=torch.float64)
    assert error(expect(golden), golden.float().T.contiguous().T).passed


@pytest.mark.parametrize("bad", [NAN, INF, -INF])
def test_not_finite_where_the_reference_is_finite_fails(bad: float) -> None:
    output = torch.zeros(5)
    output[3] = bad
    found = error(expect(torch.zeros(5, dtype=torch.float64)), output)
    assert not found.passed
    assert (found.rms, found.max, found.first_index) == (INF, INF, (3,))
    assert OutputError.model_validate_json(found.model_dump_json()) == found or math.isnan(bad)


@pytest.mark.parametrize(
    ("reference", "golden", "got", "passes"),
    [
        (NAN, NAN, NAN, True),
        (NAN, NAN, 0.0, False),
        (NAN, NAN, INF, False),
        (INF, INF, INF, True),
        (INF, INF, -INF, False),
        (-INF, -INF, -INF, True),
        (INF, INF, 6e4, False),
        # The reference overflows, the true value is finite: either is right, anything else is not.
        (INF, 7.0, INF, True),
        (INF, 7.0, 7.0, True),
        (INF, 7.0, 8.0, False),
        (INF, 7.0, NAN, False),
        (2.0, 2.0, NAN, False),
    ],
)
def test_special_values(reference: float, golden: float, got: float, passes: bool) -> None:
    expected = expect(torch.tensor([1.0, golden], dtype=torch.float64), special=torch.tensor([1.0, reference]))
    found = error(expected, torch.tensor([1.0, got]))
    assert found.passed is passes
    assert passes == (found.first_index is None)


@pytest.mark.parametrize("dtype", [torch.int64, torch.int32, torch.int8, torch.uint8, torch.bool, torch.uint16])
def test_integers_must_be_equal(dtype: torch.dtype) -> None:
    exact = torch.tensor([0, 1, 1, 0]).to(dtype)
    expected = expect(exact, dtype, limit=0.0)
    assert error(expected, exact.clone()).passed
    found = error(expected, torch.tensor([0, 1, 0, 0]).to(dtype))
    assert (found.passed, found.first_index, found.max) == (False, (2,), 1.0)


@pytest.mark.parametrize("value", [2**62, -(2**63), 2**63 - 1])
def test_large_integers_are_not_rounded_together(value: int) -> None:
    other = value - 1 if value > 0 else value + 1
    expected = expect(torch.tensor([value]), torch.int64, limit=0.0)
    assert error(expected, torch.tensor([value])).passed
    assert not error(expected, torch.tensor([other])).passed


def test_complex_outputs_by_their_parts() -> None:
    golden = torch.randn(4, 2, dtype=torch.complex128)
    expected = expect(golden, torch.complex64)
    assert error(expected, golden.to(torch.complex64)).passed
    assert error(expected, golden.conj().to(torch.complex64).conj()).passed
    wrong = golden.to(torch.complex64)
    wrong[2, 1] += 1j
    assert error(expected, wrong).first_index == (2, 1)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float8_e4m3fn, torch.float64])
def test_every_floating_format(dtype: torch.dtype) -> None:
    golden = torch.tensor([1.0, -2.0, 0.5], dtype=torch.float64)
    assert error(expect(golden, dtype), golden.to(dtype)).passed
    assert not error(expect(golden, dtype), torch.tensor([1.0, -2.0, 1.0]).to(dtype)).passed


def test_empty_and_scalar_outputs() -> None:
    found = error(expect(torch.zeros(0, 3, dtype=torch.float64)), torch.zeros(0, 3))
    assert found.passed and (found.rms, found.max) == (0.0, 0.0)
    assert error(expect(torch.tensor(2.0, dtype=torch.float64)), torch.tensor(3.0)).first_index == ()


def test_every_output_is_compared() -> None:
    golden = torch.ones(2, dtype=torch.float64)
    both = case(expect(golden, path="a"), expect(golden, path="b.0"))
    errors = compare(both, {"a": torch.ones(2), "b.0": torch.zeros(2)})
    assert [(e.output, e.passed) for e in errors] == [("a", True), ("b.0", False)]


@pytest.mark.parametrize(
    ("outputs", "words"),
    [
        ({}, "there is no output 0"),
        ({"0": torch.zeros(3)}, r"shape \[3\], the reference's has \[2\]"),
        ({"0": torch.zeros(2, 1)}, "shape"),
        ({"0": torch.zeros(2, dtype=torch.float64)}, "is float64, the reference's is float32"),
        ({"0": torch.zeros(2), "1": torch.zeros(2)}, "output 1 that the reference does not have"),
    ],
)
def test_structure_must_agree(outputs: dict[str, torch.Tensor], words: str) -> None:
    with pytest.raises(StructureMismatch, match=words):
        compare(case(expect(torch.zeros(2, dtype=torch.float64))), outputs)


@pytest.mark.nvidia
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs an NVIDIA GPU")
def test_on_a_gpu_as_on_a_cpu() -> None:
    golden = torch.randn(1 << 20, dtype=torch.float64)
    output = (golden + 1e-5 * torch.randn_like(golden)).float()
    here, there = error(expect(golden), output), error(expect(golden.cuda()), output.cuda())
    assert (there.rms, there.max) == pytest.approx((here.rms, here.max), rel=1e-9)
