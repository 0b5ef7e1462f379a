"""The oracle: goldens in fp64, limits that the honest pass and the sloppy do not."""

from __future__ import annotations

import pytest
import torch
from references import AS_WRITTEN, instance

from kernelevolve.errors import InvalidProblem
from kernelevolve.judge.comparison import compare
from kernelevolve.judge.oracle import Case, Oracle, Reference, exact_products, peak, rms
from kernelevolve.problems import Distribution, TolerancePolicy, Workload
from kernelevolve.problems.instance import Instance

POLICY = TolerancePolicy()
MATRICES = "[torch.randn(48, 256), torch.randn(256, 32)]"


def case(made: Instance, workload: Workload = AS_WRITTEN, seed: int = 5) -> Case:
    return Oracle(made, POLICY).case(workload, seed)


def passes(found: Case, output: torch.Tensor) -> bool:
    (error,) = compare(found, {found.expected[0].path: output})
    return error.passed


def test_golden_is_the_reference_in_double_precision() -> None:
    found = case(instance("return x[0] @ x[1]", MATRICES))
    (expected,) = found.expected
    a, b = found.inputs
    assert (a.dtype, expected.golden.dtype, expected.dtype) == (torch.float32, torch.float64, torch.float32)
    assert torch.equal(expected.golden, a.double() @ b.double())
    error = (a @ b).double() - expected.golden
    assert expected.reference_rms == pytest.approx(rms(error))
    assert expected.reference_max == pytest.approx(peak(error))
    assert found.golden_precision == "fp64"


def test_moved_part_is_the_change_under_other_inputs() -> None:
    made = instance("return 1000 + x[0]", "[torch.randn(64, 64)]")
    (expected,) = case(made, seed=5).expected
    (first,), (second,) = made.make_inputs(AS_WRITTEN, 5), made.make_inputs(AS_WRITTEN, 6)
    assert expected.moved_rms == pytest.approx(rms(first.double() - second.double()))


def test_limits_follow_the_policy() -> None:
    (expected,) = case(instance("return x[0] @ x[1]", MATRICES)).expected
    eps, golden = torch.finfo(torch.float32).eps, expected.golden
    assert expected.rms_limit == pytest.approx(max(POLICY.k * expected.reference_rms, POLICY.floor * eps * rms(golden)))
    assert expected.max_limit == pytest.approx(
        max(POLICY.k_max * expected.reference_max, POLICY.floor_max * eps * peak(golden))
    )


def test_the_moved_part_tightens_the_limit() -> None:
    found = case(instance("return 1000 + 1e-3 * x[0]", "[torch.randn(256)]"))
    (expected,) = found.expected
    assert expected.rms_limit == pytest.approx(
        max(POLICY.moved_fraction * expected.moved_rms, 2 * expected.reference_rms)
    )
    assert expected.rms_limit < POLICY.floor * torch.finfo(torch.float32).eps * 1000
    assert not passes(found, torch.full((256,), 1000.0))


@pytest.mark.parametrize(
    "forward",
    [
        "y = x[0].float(); return (y * torch.rsqrt((y * y).mean(-1, keepdim=True))).to(x[0].dtype)",
        "return torch.softmax(x[0], -1, dtype=torch.float32)",
        "return x[0] + torch.linspace(0, 1, 256)",
        "return x[0] @ self.table",
        "y = torch.zeros(256, 256, dtype=torch.float32); y += x[0] / 3; return y",
        "y = torch.empty_like(x[0]); y.copy_(x[0] / 3); return y",
    ],
    ids=["cast", "dtype argument", "factory", "plain attribute", "in place", "copy"],
)
def test_casts_inside_the_reference_do_not_spoil_the_golden(forward: str) -> None:
    made = instance(forward, "[torch.rand(256, 256)]", "self.table = torch.randn(256, 256)")
    found = case(made)
    golden = found.expected[0].golden
    assert found.golden_precision == "fp64"
    assert golden.dtype is torch.float64
    assert not torch.equal(golden, golden.float().double())


def test_a_reference_that_refuses_fp64_is_judged_by_its_nudged_self() -> None:
    forward = "assert x[0].dtype is torch.float32; return torch.exp(x[0] @ x[1] / 50)"
    found = case(instance(forward, MATRICES))
    (expected,) = found.expected
    assert found.golden_precision == "reference dtype"
    a, b = found.inputs
    assert expected.reference_rms > 0
    assert passes(found, torch.exp(a.double() @ b.double() / 50).float())
    assert not passes(found, torch.exp(a.bfloat16().float() @ b / 50))


def test_double_precision_problems_have_a_tolerance() -> None:
    found = case(instance("return x[0] @ x[1]", "[torch.randn(48, 512).double(), torch.randn(512, 32).double()]"))
    a, b = found.inputs
    assert found.golden_precision == "reference dtype"
    assert passes(found, a[:, 256:] @ b[256:] + a[:, :256] @ b[:256])
    assert not passes(found, (a.float() @ b.float()).double())


def test_inputs_survive_a_reference_that_works_in_place() -> None:
    made = instance("x[0].mul_(2); return x[0]", "[torch.ones(4)]")
    found = case(made)
    assert torch.equal(found.inputs[0], torch.ones(4))
    assert torch.equal(found.expected[0].golden, torch.full((4,), 2.0, dtype=torch.float64))


def test_random_references_answer_alike_and_are_seen_by_a_second_call() -> None:
    made = instance("return F.dropout(x[0], 0.5, training=True)", "[torch.ones(64)]")
    reference = Reference(made, AS_WRITTEN, 0)
    inputs = made.make_inputs(AS_WRITTEN, 0)
    assert torch.equal(reference.outputs(inputs)["0"], reference.outputs(inputs)["0"])
    assert not torch.equal(reference.outputs(inputs)["0"], reference.second_call(inputs)["0"])


def test_references_that_count_are_seen_by_a_second_call() -> None:
    made = instance("self.n += 1; return x[0] * self.n", "[torch.ones(4)]", "self.n = 0")
    reference = Reference(made, AS_WRITTEN, 0)
    inputs = made.make_inputs(AS_WRITTEN, 0)
    assert reference.outputs(inputs)["0"][0] == reference.outputs(inputs)["0"][0] == 1
    assert reference.second_call(inputs)["0"][0] == 2


def test_the_callers_generators_and_flags_are_left_alone() -> None:
    made = instance("return torch.rand(3) + x[0] @ x[0]", "[torch.randn(3, 3)]")
    torch.manual_seed(1)
    expected = torch.rand(2)
    torch.manual_seed(1)
    torch.set_float32_matmul_precision("high")
    try:
        case(made)
        assert torch.get_float32_matmul_precision() == "high"
        assert torch.equal(torch.rand(2), expected)
        with pytest.raises(ZeroDivisionError), exact_products():
            assert torch.get_float32_matmul_precision() == "highest"
            _ = 1 / 0
        assert torch.get_float32_matmul_precision() == "high"
    finally:
        torch.set_float32_matmul_precision("highest")


def test_integers_are_exact_and_outputs_keep_their_paths() -> None:
    made = instance("v, i = x[0].sort(); return {'values': v, 'more': [i, i > 3]}", "[torch.randn(8)]")
    found = case(made)
    assert [e.path for e in found.expected] == ["values", "more.0", "more.1"]
    index = found.expected[1]
    assert (index.dtype, index.rms_limit, index.max_limit) == (torch.int64, 0.0, 0.0)
    assert index.moved_rms > 0
    own = Reference(made, AS_WRITTEN, 5).outputs(found.inputs)
    assert all(error.passed for error in compare(found, own))


def test_overflow_of_the_reference_is_not_held_against_the_true_value() -> None:
    made = instance("return x[0] * x[0]", "[torch.tensor([1.0, 300.0, 2.0])]")
    found = case(made, Workload(name="half", dtype="float16"))
    assert found.expected[0].special is not None
    assert passes(found, torch.tensor([1.0, torch.inf, 4.0]).half())
    assert not passes(found, torch.tensor([1.0, -torch.inf, 4.0]).half())
    assert not passes(found, torch.tensor([1.0, torch.inf, 4.1]).half())
    assert found.expected[0].max_limit < 0.1


def test_not_a_number_belongs_where_the_reference_has_it() -> None:
    found = case(instance("return torch.log(x[0])", "[torch.tensor([1.0, -1.0, 0.0, 4.0])]"))
    right = torch.tensor([1.0, -1.0, 0.0, 4.0]).log()
    assert passes(found, right)
    assert not passes(found, torch.nan_to_num(right))


@pytest.mark.parametrize("draw", ["rand", "randn"])
def test_other_orders_of_a_product_pass_and_lower_precision_does_not(draw: str) -> None:
    found = case(instance("return x[0] @ x[1]", f"[torch.{draw}(48, 2048), torch.{draw}(2048, 32)]"))
    a, b = found.inputs
    blocks = sum(a[:, i : i + 64] @ b[i : i + 64] for i in range(0, 2048, 64))
    assert isinstance(blocks, torch.Tensor)
    assert passes(found, blocks)
    assert passes(found, (b.T.contiguous() @ a.T.contiguous()).T)
    # TF32 keeps ten bits of the mantissa, as float16 does; the values are in its range.
    assert not passes(found, a.half().float() @ b.half().float())
    assert not passes(found, (a.bfloat16() @ b.bfloat16()).float())


def test_associations_of_a_chain_pass() -> None:
    found = case(instance("return x[0] @ (x[0].mT @ x[1])", "[torch.randn(4, 24, 64), torch.randn(4, 24, 96)]"))
    x, y = found.inputs
    assert passes(found, (x @ x.mT) @ y)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_sixteen_bit_kernels_may_round_once_and_no_more(dtype: str) -> None:
    made = instance("return F.gelu(x[0] @ x[1])", MATRICES)
    found = case(made, Workload(name="narrow", dtype=dtype))
    a, b = found.inputs
    fused = torch.nn.functional.gelu(a.float() @ b.float())
    assert passes(found, fused.to(a.dtype))
    assert not passes(found, (1.01 * fused).to(a.dtype))
    eighth = torch.nn.functional.gelu(a.to(torch.float8_e4m3fn).float() @ b.to(torch.float8_e4m3fn).float())
    assert not passes(found, eighth.to(a.dtype))


def test_unusual_but_exact_programs_pass_a_normalisation() -> None:
    made = instance("return F.layer_norm(x[0], (512,))", "[torch.randn(64, 512)]")
    for shift in (0.0, 3.0):
        found = case(made, Workload(name="w", distribution=Distribution(shift=shift)))
        (x,) = found.inputs
        centred = x - x.mean(-1, keepdim=True)
        assert passes(found, centred * torch.rsqrt(centred.square().mean(-1, keepdim=True) + 1e-5))
        assert not passes(found, x)


def test_weights_and_inputs_may_have_seeds_of_their_own() -> None:
    made = instance("return self.linear(x[0])", "[torch.randn(2, 8)]", "self.linear = nn.Linear(8, 4)")
    oracle = Oracle(made, POLICY)
    one, two = oracle.case(AS_WRITTEN, 1, 7), oracle.case(AS_WRITTEN, 2, 7)
    assert all(torch.equal(one.weights[name], two.weights[name]) for name in one.weights)
    assert not torch.equal(one.inputs[0], two.inputs[0])
    golden = one.inputs[0].double() @ one.weights["linear.weight"].double().T + one.weights["linear.bias"].double()
    assert torch.allclose(one.expected[0].golden, golden, rtol=1e-13)


def test_a_failing_reference_is_named_with_its_line() -> None:
    made = instance("return x[0].view(4) if x[0].max() < 100 else x[0] @ x[0][:2]", "[torch.rand(4)]")
    with pytest.raises(InvalidProblem, match=r":\d+: .*workload 'large'"):
        case(made, Workload(name="large", distribution=Distribution(scale=1e6)))


@pytest.mark.nvidia
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs an NVIDIA GPU")
def test_no_tf32_on_a_gpu() -> None:
    from references import problem

    from kernelevolve.problems.instance import load_instance

    torch.backends.cuda.matmul.allow_tf32 = True
    try:
        found = case(load_instance(problem("return x[0] @ x[1]", MATRICES), "cuda"))
        a, b = found.inputs
        assert not passes(found, a @ b)
        with exact_products():
            assert passes(found, a @ b)
    finally:
        torch.backends.cuda.matmul.allow_tf32 = False
