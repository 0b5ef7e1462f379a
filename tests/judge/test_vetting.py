"""Vetting: problems that cannot tell right from wrong are recognised, and those that can are not accused."""

from __future__ import annotations

from references import instance

from kernelevolve.judge.oracle import Oracle
from kernelevolve.judge.vetting import VettingReport, vet
from kernelevolve.problems import Distribution, Role, TolerancePolicy, Workload

AS_WRITTEN = Workload(name="as-written")
SHIFTED = Workload(name="shifted", role=Role.HELD_OUT, distribution=Distribution(normal=True, scale=2.0, shift=0.5))
FRESH = Workload(
    name="fresh-weights", role=Role.HELD_OUT, distribution=Distribution(normal=True, fresh_statistics=True)
)


def report(forward: str, inputs: str, init: str = "", workloads: tuple[Workload, ...] = (AS_WRITTEN,)) -> VettingReport:
    made = instance(forward, inputs, init)
    return vet(made, Oracle(made, TolerancePolicy()), workloads)


def test_an_honest_problem() -> None:
    found = report("return x[0] @ x[1]", "[torch.randn(16, 32), torch.randn(32, 8)]")
    assert not found.vacuous
    assert found.usable_workloads == ("as-written",)
    assert found.reasons == ()
    assert found.judged_how == "every workload tells a right result from a wrong one"
    assert found.vacuous_as_written == {"1e-4": (), "1e-2": ()}


def test_a_constant_result_is_vacuous() -> None:
    found = report("return torch.clamp(torch.relu(x[0]), max=0)", "[torch.rand(8, 8)]")
    assert found.vacuous
    assert any("the inputs do not change the result" in reason for reason in found.reasons)
    assert "no result on this problem counts as a win" in found.judged_how


def test_a_mean_that_is_zero_but_for_rounding_is_vacuous() -> None:
    found = report(
        "return self.norm(x[0]).mean(dim=(1, 2, 3))", "[torch.rand(8, 8, 16, 16)]", "self.norm = nn.GroupNorm(4, 8)"
    )
    assert found.vacuous
    (finding,) = found.findings
    assert finding.outputs[0].moves
    assert {"the result for other inputs", "zeros"} <= set(finding.outputs[0].wrong)
    assert any("cannot be told from" in reason and "zeros" in reason for reason in found.reasons)
    assert "zeros" in found.vacuous_as_written["1e-4"]


def test_other_values_save_a_problem_whose_own_cannot_tell() -> None:
    init = "self.norm = nn.BatchNorm1d(32, eps=0)"
    found = report("return self.norm(torch.relu(x[0]))", "[torch.rand(64, 32)]", init, (AS_WRITTEN, SHIFTED, FRESH))
    assert not found.vacuous
    assert "a copy of input 0" in found.findings[0].outputs[0].wrong
    assert found.usable_workloads == ("shifted", "fresh-weights")
    assert found.judged_how == (
        "as-written cannot tell a right result from a wrong one; the verdict rests on shifted and fresh-weights"
    )


def test_a_fixed_tolerance_may_be_vacuous_where_the_derived_one_is_not() -> None:
    found = report("return torch.softmax(x[0], -1)", "[torch.rand(4, 4096)]")
    assert not found.vacuous
    assert {"zeros", "the mean everywhere", "the result for other inputs"} <= set(found.vacuous_as_written["1e-2"])
    assert found.vacuous_as_written["1e-4"] == ()


def test_random_results_cannot_be_judged() -> None:
    found = report("return F.dropout(x[0], 0.5, training=True)", "[torch.randn(64, 64)]")
    assert found.vacuous
    assert found.findings[0].random
    assert any("a second call on the same inputs gives another result" in reason for reason in found.reasons)


def test_results_that_depend_on_earlier_calls_cannot_be_judged() -> None:
    init = "self.register_buffer('seen', torch.zeros(()))"
    found = report("self.seen += 1; return x[0] * self.seen", "[torch.randn(64)]", init)
    assert found.vacuous and found.findings[0].random


def test_idle_inputs_are_named() -> None:
    found = report("return x[0] * 2 + 0 * x[1].sum().int()", "[torch.randn(16), torch.randn(16)]")
    assert found.findings[0].idle_inputs == ("1",)
    assert "on workload as-written input 1 does not change the result" in found.reasons
    assert not found.vacuous


def test_an_output_that_never_changes_does_not_spoil_the_others() -> None:
    found = report("return x[0] * 2, self.table + 0", "[torch.randn(16)]", "self.table = torch.arange(4.0)")
    moving, fixed = found.findings[0].outputs
    assert (moving.moves, fixed.moves) == (True, False)
    assert not found.vacuous


def test_one_blind_output_spoils_a_workload() -> None:
    found = report("return x[0] * 2, 1e8 + 1e-3 * x[0]", "[torch.randn(64)]")
    assert found.vacuous
    assert not found.findings[0].outputs[0].wrong


def test_integers_tell_exactly() -> None:
    found = report("return x[0].argmax(-1)", "[torch.randn(64, 32)]")
    assert not found.vacuous
    assert found.findings[0].outputs[0].coarse == ()


def test_precision_that_a_workload_cannot_see_is_reported() -> None:
    found = report("return (1e4 + x[0] * x[0]) - 1e4", "[torch.rand(4096)]")
    assert not found.vacuous
    assert found.findings[0].outputs[0].coarse == ("a result rounded to bfloat16", "a result rounded to TF32")
    assert found.reasons == (
        "on workload as-written output 0 cannot be told from a result rounded to bfloat16 and a result rounded to TF32",
    )


def test_vetting_stops_at_the_first_workload_that_tells() -> None:
    workloads = (SHIFTED, AS_WRITTEN)
    honest, blind = (instance(f"return {body}", "[torch.randn(8, 8)]") for body in ("x[0] * 2", "x[0] * 0 + 1"))
    found = vet(honest, Oracle(honest, TolerancePolicy()), workloads, until_usable=True)
    assert found.usable_workloads == ("as-written",) and len(found.findings) == 1
    found = vet(blind, Oracle(blind, TolerancePolicy()), workloads, until_usable=True)
    assert found.vacuous and len(found.findings) == 2


def test_a_report_can_be_stored() -> None:
    found = report("return torch.relu(x[0])", "[torch.randn(8)]")
    assert VettingReport.model_validate_json(found.model_dump_json()) == found
