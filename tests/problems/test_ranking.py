"""The ranking suite: what its problems compute, and the values they are given."""

from __future__ import annotations

from typing import Any

import pytest
import torch
import torch.nn.functional as F

from kernelevolve.problems import Role, Workload
from kernelevolve.problems.execution import execute
from kernelevolve.problems.instance import Instance, load_instance
from kernelevolve.problems.loaders import load_problem
from kernelevolve.problems.suites import generators, ranking

NAMES = [
    "bias_gelu_rmsnorm", "conv1d", "dcn_v2_cross", "embedding_bag_sum", "hstu_attention", "jagged_softmax", "map_id",
    "masked_softmax", "mbdt", "optimized_fm", "pffn", "rmsnorm_backward", "rmsnorm_residual",
]  # fmt: skip


def instance(name: str) -> Instance:
    return load_instance(load_problem(f"ranking/{name}"), "cpu", check=False)


def run(name: str, axes: dict[str, Any], seed: int = 1) -> tuple[Any, torch.nn.Module, tuple[Any, ...]]:
    made = instance(name)
    workload = Workload(name="test", axes=axes)
    model, inputs = made.make_reference(workload, seed), made.make_inputs(workload, seed)
    with torch.no_grad():
        return model(*inputs), model, inputs


def test_names() -> None:
    assert ranking.names() == NAMES


@pytest.mark.parametrize("name", NAMES)
def test_the_reference_runs_and_is_finite_on_every_small_workload(name: str) -> None:
    made = instance(name)
    roles = {workload.role for workload in made.workloads}
    assert roles == {Role.SEARCH, Role.HELD_OUT, Role.STRESS}
    for workload in made.workloads:
        if workload.role is Role.STRESS:
            assert made.check_reference(workload)


@pytest.mark.parametrize("name", NAMES)
def test_a_seed_changes_values_and_never_shapes(name: str) -> None:
    made = instance(name)
    for workload in made.workloads[1:]:
        first, second = made.make_inputs(workload, 1), made.make_inputs(workload, 2)
        assert [t.shape for t in first] == [t.shape for t in second]
    if name != "conv1d":
        assert any(not torch.equal(a, b) for a, b in zip(first, second, strict=True))


# Batch or rows, and the other sizes that are published or chosen for a GPU.
ON_A_GPU = {
    "rmsnorm_residual": ({"rows": 65536}, "bfloat16"),
    "bias_gelu_rmsnorm": ({"rows": 65536}, "bfloat16"),
    "masked_softmax": ({"users": 16384}, "float16"),
    "embedding_bag_sum": ({"batch": 512}, "float16"),
    "dcn_v2_cross": ({"batch": 8192}, "bfloat16"),
    "map_id": ({"vocabulary": 10_000, "ids": 50_000}, None),
    "mbdt": ({"batch": 8192}, None),
    "optimized_fm": ({"batch": 1024, "n": 24, "d": 224, "k": 2198}, "float16"),
    "pffn": ({"batch": 1024, "tokens": 200}, "float16"),
    "conv1d": ({"batch": 2048}, "float16"),
    "hstu_attention": ({"users": 32, "fill": 0.95}, "bfloat16"),
    "jagged_softmax": ({"segments": 1024, "total": 524_288, "width": 128}, "bfloat16"),
    "rmsnorm_backward": ({"rows": 16384, "features": 1024}, "bfloat16"),
}


@pytest.mark.parametrize("name", NAMES)
def test_a_gpu_gets_the_published_sizes(name: str) -> None:
    execution = execute(load_problem(f"ranking/{name}"), torch.device("cpu"))
    on_gpu = Instance(execution, torch.device("cuda"))  # Makes no tensor yet.
    assert (on_gpu.workloads[0].axes, on_gpu.workloads[0].dtype) == ON_A_GPU[name]


def test_widths_of_a_gpu() -> None:
    widths = {"dcn_v2_cross": [3456], "embedding_bag_sum": [32, 100_000, 128], "pffn": [256, 160], "conv1d": [96]}
    widths["hstu_attention"] = [2048]
    for name, expected in widths.items():
        execution = execute(load_problem(f"ranking/{name}"), torch.device("cpu"))
        takes_device = name in ("dcn_v2_cross", "embedding_bag_sum", "hstu_attention")
        assert execution.get("get_init_inputs")(*(("cuda",) if takes_device else ())) == expected


def test_rmsnorm_residual() -> None:
    (y, h), model, (x, residual) = run("rmsnorm_residual", {"rows": 17})
    assert torch.equal(h, x + residual)
    torch.testing.assert_close(y, F.rms_norm(h, h.shape[-1:], model.gain, 1e-6))  # type: ignore[arg-type]


def test_bias_gelu_rmsnorm() -> None:
    y, model, (x,) = run("bias_gelu_rmsnorm", {"rows": 17})
    h = x + model.bias
    h = h * 0.5 * (1 + torch.erf(h / 2**0.5))
    torch.testing.assert_close(y, model.gain * h / (h.square().mean(-1, keepdim=True) + 1e-6).sqrt())


def test_masked_softmax() -> None:
    weights, _, (scores, mask) = run("masked_softmax", {"users": 9, "heads": 2, "events": 33})
    raised = (scores / 8).exp() * mask
    torch.testing.assert_close(weights, raised / raised.sum(-1, keepdim=True))
    lengths = mask.sum(-1)
    assert int(lengths.min()) >= 1 and int(lengths.max()) > int(lengths.min())
    assert torch.equal(mask, torch.arange(33) < lengths[..., None])


def test_embedding_bag_sum() -> None:
    batch, length, tables = 40, 5, 8
    pooled, model, (ids, offsets) = run("embedding_bag_sum", {"batch": batch, "length": length})
    ends = torch.cat([offsets[1:], offsets.new_tensor([ids.numel()])])
    weight = model.weight
    assert isinstance(weight, torch.Tensor)
    for table in range(tables):
        for bag in range(batch):
            at = table * batch + bag
            rows = ids[offsets[at] : ends[at]]
            assert bool((rows // (weight.shape[0] // tables) == table).all())
            torch.testing.assert_close(pooled[bag, table], weight[rows].sum(0), rtol=1e-5, atol=1e-5)


def test_dcn_v2_cross() -> None:
    y, model, (x0, x) = run("dcn_v2_cross", {"batch": 5})
    torch.testing.assert_close(y, x0 * (x @ model.weight.T + model.bias) + x)


def test_map_id_is_the_published_example() -> None:
    model = instance("map_id").make_model(0)
    found = model(torch.tensor([100, 300, 500, 200, 999]), torch.tensor([100, 200, 300, 400, 500]))
    assert found.tolist() == [1, 3, 5, 2, 0]


def test_map_id_has_some_unknown_ids() -> None:
    places, _, (ids, vocabulary) = run("map_id", {"vocabulary": 10_000, "ids": 50_000})
    assert 0.05 < float((places == 0).float().mean()) < 0.2
    known = places > 0
    assert torch.equal(vocabulary[places[known] - 1], ids[known])
    assert not torch.isin(ids[~known], vocabulary).any()


def test_mbdt_is_a_bucketize_of_every_feature_with_disjoint_ids() -> None:
    merged, model, (values,) = run("mbdt", {"batch": 50})
    borders, first = model.borders, 0
    assert isinstance(borders, torch.Tensor)
    counts = torch.isfinite(borders).sum(-1).tolist()
    assert len(set(counts)) > 5 and 1 <= min(counts) < max(counts) <= 63
    for feature, count in enumerate(counts):
        expected = torch.bucketize(values[feature], borders[feature, :count].contiguous()) + first
        assert torch.equal(merged[feature], expected)
        first += count + 1


def test_optimized_fm() -> None:
    out, _, (x, y) = run("optimized_fm", {"batch": 3, "n": 6, "d": 20, "k": 31})
    torch.testing.assert_close(out, (x @ x.transpose(1, 2)) @ y, rtol=1e-4, atol=1e-4)


def test_pffn() -> None:
    out, model, (x, w1, b1, w2, b2) = run("pffn", {"batch": 2, "tokens": 7})
    for sample in range(2):
        h = F.gelu(x[sample] @ w1[sample] + b1[sample])
        h = F.rms_norm(h, h.shape[-1:], model.inner_gain, 1e-6)  # type: ignore[arg-type]
        y = h @ w2[sample] + b2[sample]
        y = F.rms_norm(y, y.shape[-1:], model.outer_gain, 1e-6)  # type: ignore[arg-type]
        torch.testing.assert_close(out[sample], y, rtol=1e-4, atol=1e-4)


def test_conv1d() -> None:
    out, model, (x,) = run("conv1d", {"batch": 2, "length": 12})
    padded = F.pad(x, (1, 1)).unfold(-1, 3, 1)
    expected = torch.einsum("bitk,oik->bot", padded, model.conv.weight) + model.conv.bias[:, None]  # type: ignore[union-attr, index]
    torch.testing.assert_close(out, expected, rtol=1e-4, atol=1e-5)


def test_hstu_attention_is_a_gated_sum_over_what_each_event_may_see() -> None:
    made, workload = instance("hstu_attention"), Workload(name="test", axes={"users": 5, "fill": 0.1})
    inputs, model = made.make_inputs(workload, 1), made.make_reference(workload, 1).double()
    q, k, v = (t.double() for t in inputs[:3])
    offsets, targets = inputs[3].tolist(), inputs[4].tolist()
    bias, n = model.bias, 256
    assert isinstance(bias, torch.Tensor) and bias.shape == (n,)
    expected = torch.zeros_like(v)
    for first, end, last in zip(offsets, offsets[1:], targets, strict=False):
        for i in range(first, end):
            for j in range(first, i + 1):
                if j < end - last or i == j:
                    score = (q[i] * k[j]).sum(-1, keepdim=True) / 32**0.5 + bias[i - j]
                    expected[i] += score * torch.sigmoid(score) / n * v[j]
    with torch.no_grad():
        torch.testing.assert_close(model(q, k, v, *inputs[3:]), expected.detach(), rtol=1e-10, atol=1e-14)


@pytest.mark.parametrize(("users", "fill"), [(32, 0.95), (37, 0.5), (1, 1 / 256), (1, 1.0), (6, 0.0)])
def test_hstu_attention_has_lengths_and_targets_in_range(users: int, fill: float) -> None:
    made, workload = instance("hstu_attention"), Workload(name="test", axes={"users": users, "fill": fill})
    for seed in range(5):
        q, _, _, offsets, targets = made.make_inputs(workload, seed)
        lengths = offsets.diff()
        assert int(lengths.min()) >= 0 and int(lengths.max()) <= 256 and int(offsets[-1]) == q.shape[0]
        assert bool(((targets <= lengths) & (targets <= 20) & (targets >= lengths.clamp(max=1))).all())
        assert abs(float(lengths.float().mean()) - 256 * fill) <= 1
    assert users < 2 or fill == 0 or len(set(lengths.tolist())) > users // 2


def test_jagged_softmax_is_a_softmax_of_every_segment() -> None:
    out, model, (values, offsets) = run("jagged_softmax", {"segments": 40, "total": 200, "width": 7})
    lengths = offsets.diff()
    assert int(offsets[0]) == 0 and int(offsets[-1]) == 200 and int(lengths.min()) == 0
    exact = model(values.double(), offsets)
    for first, end in zip(offsets[:-1].tolist(), offsets[1:].tolist(), strict=True):
        torch.testing.assert_close(out[first:end], torch.softmax(values[first:end], 0))
        raised = values[first:end].double().exp()
        torch.testing.assert_close(exact[first:end].double(), raised / raised.sum(0), rtol=1e-5, atol=1e-7)


@pytest.mark.parametrize(("rows", "features"), [(17, 24), (1, 9), (5, 1)])
def test_rmsnorm_backward_gives_the_gradients_of_autograd(rows: int, features: int) -> None:
    made, workload = instance("rmsnorm_backward"), Workload(name="test", axes={"rows": rows, "features": features})
    x, gain, dy = made.make_inputs(workload, 1)
    dx, dgain = made.make_reference(workload, 1)(x, gain, dy)
    x, gain, dy = (t.double().requires_grad_() for t in (x, gain, dy))
    y = x / (x.square().mean(-1, keepdim=True) + 1e-6).sqrt() * gain
    expected = torch.autograd.grad(y, (x, gain), dy)
    torch.testing.assert_close((dx.double(), dgain.double()), expected, rtol=1e-4, atol=1e-5)


def test_zipf_ids_are_skewed_and_in_range() -> None:
    torch.manual_seed(0)
    counts = torch.bincount(generators.zipf_ids(200_000, 1000), minlength=1000).sort(descending=True).values
    assert counts.numel() == 1000
    # P(k) ~ k ** -1.05: the first id is about 2 ** 1.05 times as frequent as the second.
    assert 1.9 < float(counts[0] / counts[1]) < 2.3
    assert float(counts[:10].sum() / counts.sum()) > 0.35


@pytest.mark.parametrize(("bags", "total"), [(1000, 20_000), (1, 3), (512, 512), (7, 0)])
def test_ragged_lengths_sum_to_the_total(bags: int, total: int) -> None:
    for seed in range(5):
        torch.manual_seed(seed)
        lengths = generators.ragged_lengths(bags, total)
        assert int(lengths.sum()) == total and int(lengths.min()) >= 0 and lengths.shape == (bags,)
    if bags == 1000:
        assert 0.05 < float((lengths == 0).float().mean()) < 0.2
        assert float(lengths.max()) > 5 * float(lengths.float().mean())


def test_sorted_ids_are_distinct() -> None:
    assert bool((generators.sorted_ids(5000).diff() > 0).all())


@pytest.mark.nvidia
@pytest.mark.parametrize("name", NAMES)
def test_the_reference_runs_on_a_gpu_at_the_published_sizes(name: str) -> None:
    if not torch.cuda.is_available():
        pytest.skip("needs an NVIDIA GPU")
    made = load_instance(load_problem(f"ranking/{name}"), "cuda", check=False)
    assert all(made.check_reference(workload) for workload in made.workloads)
