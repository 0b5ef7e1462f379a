"""Physics: the floor counts what cannot be avoided and nothing else."""

from __future__ import annotations

import pytest
from references import AS_WRITTEN, instance

from kernelevolve.judge.physics import rooflines, with_time
from kernelevolve.judge.verdict import Roofline
from kernelevolve.problems import Workload
from kernelevolve.targets import Ceilings

CEILINGS = Ceilings(
    device="imaginary", read_bandwidth=1e9, copy_bandwidth=2e9, flops={"float32": 1e12, "float64": 5e11},
    launch_seconds=1e-9, cache_bytes=0,
)  # fmt: skip
KILO = 1 << 10


def floor(
    forward: str, inputs: str, init: str = "", ceilings: Ceilings = CEILINGS, workload: Workload = AS_WRITTEN
) -> Roofline:
    return rooflines(instance(forward, inputs, init), [workload], ceilings)[workload.name]


# -- traffic -----------------------------------------------------------------------------------------------------------


def test_pointwise_reads_and_writes_once() -> None:
    found = floor("return torch.relu(x[0] + x[1]) * x[0]", "[torch.randn(256, 256), torch.randn(256)]")
    assert found.bytes == 4 * (256 * 256 + 256 + 256 * 256)
    assert found.bound == "memory"
    assert found.floor_seconds == pytest.approx(found.bytes / 2e9)


def test_weights_and_narrow_formats_count_their_own_bytes() -> None:
    init = "self.gain = nn.Parameter(torch.randn(256)); self.unused = nn.Parameter(torch.randn(999))"
    found = floor(
        "return x[0] * self.gain", "[torch.randn(64, 256)]", init, workload=Workload(name="half", dtype="float16")
    )
    assert found.bytes == 2 * (64 * 256 + 256 + 64 * 256)


def test_outputs_that_are_windows_on_inputs_are_free() -> None:
    assert floor("return x[0].view(16, 4).T[2:]", "[torch.randn(8, 8)]").bytes == 0
    assert floor("return x[0].T, x[1] + 1", "[torch.randn(8, 8), torch.randn(8)]").bytes == 4 * 16


def test_only_what_is_cut_out_is_read() -> None:
    inputs = "[torch.randn(64, 100)]"
    assert floor("return x[0][:, 30:40] * 2", inputs).bytes == 2 * 4 * 64 * 10
    assert floor("return x[0][:, :10] * x[0][:, 90:]", inputs).bytes == 4 * 64 * (20 + 10)
    assert floor("return x[0][:, :10] * x[0][:, 5:15]", inputs).bytes == 4 * 64 * (15 + 10)
    assert floor("a, b = x[0].chunk(2, -1); return a * torch.sigmoid(b)", inputs).bytes == 4 * 64 * (100 + 50)
    assert floor("return x[0][:, 3] + 1", inputs).bytes == 4 * (64 + 64)


def test_only_rows_that_are_named_are_read() -> None:
    init = "self.table = nn.Embedding(1000, 32)"
    found = floor("return self.table(x[0])", "[torch.tensor([[3, 3, 7], [3, 9, 7]])]", init)
    assert found.bytes == 8 * 6 + 4 * 32 * 3 + 4 * 32 * 6
    found = floor("return x[0][x[1] % 50] * 2", "[torch.randn(100, 16), torch.arange(200)]")
    assert found.bytes == 8 * 200 + 4 * 16 * 50 + 4 * 16 * 200
    bag = "return F.embedding_bag(x[0], self.table.weight, x[1], mode='sum')"
    found = floor(bag, "[torch.tensor([1, 2, 2, 5]), torch.tensor([0, 3])]", init)
    assert found.bytes == 8 * 6 + 4 * 32 * 3 + 4 * 32 * 2


def test_pairs_of_indices_pick_their_own_elements() -> None:
    inputs = "[torch.randn(64, 32, 8), torch.arange(48) % 64, torch.arange(48) * 5 % 32]"
    assert floor("return x[0][x[1], x[2]] * 2", inputs).bytes == 2 * 8 * 48 + 2 * 4 * 8 * 48
    assert floor("return x[0][x[1], x[2] - 32] * 2", inputs).bytes == 2 * 8 * 48 + 2 * 4 * 8 * 48
    repeated = "[torch.randn(64, 32, 8), torch.arange(48) % 6, torch.arange(48) % 4]"  # 12 pairs
    assert floor("return x[0][x[1], x[2]] * 2", repeated).bytes == 2 * 8 * 48 + 4 * 8 * (12 + 48)


def test_what_is_needed_of_what_is_let_through_counts_where_the_two_must_meet() -> None:
    inputs = "[torch.randn(64, 64), (torch.arange(64) < 48).expand(64, 64).contiguous()]"
    written = 4 * 64
    # Three quarters pass the mask, half of the columns are looked at: at least a quarter is both, here all of the half.
    found = floor("return torch.where(x[1], x[0], 0.0)[:, :32].sum(1)", inputs)
    assert 4 * 64 * 16 <= found.bytes - written - 64 * 32 <= 4 * 64 * 32
    assert floor("return torch.where(x[1], x[0], 0.0)[:, 48:].sum(1)", inputs).bytes <= written + 64 * 16


def test_a_table_is_searched_for_nothing_and_values_are_read() -> None:
    inputs = "[torch.randn(5000), torch.randn(100).sort().values]"
    assert floor("return torch.bucketize(x[0], x[1])", inputs).bytes == 4 * 5000 + 8 * 5000


def test_masked_values_are_not_needed() -> None:
    masked = "return torch.softmax(x[0].masked_fill(~x[1], -1e9), -1)"
    inputs = "[torch.randn(64, 64), (torch.arange(64) < 16).expand(64, 64).contiguous()]"
    assert floor(masked, inputs).bytes == 4 * 64 * 16 + 64 * 64 + 4 * 64 * 64
    # A mask that floating values make is not known beforehand: the values that make it are read.
    assert floor("return torch.where(x[0] > 0, x[0], x[1])", "[torch.randn(64), torch.randn(64)]").bytes == 4 * 128


def test_loss_over_classes_needs_every_score() -> None:
    found = floor("return F.cross_entropy(x[0], x[1])", "[torch.randn(64, 100), torch.randint(0, 100, (64,))]")
    assert found.bytes >= 4 * 64 * 100


def test_a_cpu_cache_absorbs_what_is_written_last() -> None:
    absorbing = CEILINGS.model_copy(update={"cache_bytes": 1000})
    inputs = "[torch.randn(1024)]"
    assert floor("return x[0] * 2", inputs, ceilings=absorbing).bytes == 2 * 4096 - 1000
    assert floor("return x[0].sum()", inputs, ceilings=absorbing).bytes == 4096


# -- arithmetic --------------------------------------------------------------------------------------------------------


def test_products() -> None:
    found = floor("return x[0] @ x[1]", "[torch.randn(32, 64), torch.randn(64, 16)]")
    assert found.flops == 2 * 32 * 64 * 16
    init = "self.linear = nn.Linear(64, 16)"
    found = floor("return torch.relu(self.linear(x[0]))", "[torch.randn(2, 32, 64)]", init)
    assert 2 * 64 * 64 * 16 <= found.flops <= 2 * 64 * 64 * 16 + 2 * 64 * 16
    found = floor(
        "return torch.baddbmm(x[0], x[1], x[2])", "[torch.randn(3, 4, 6), torch.randn(3, 4, 5), torch.randn(3, 5, 6)]"
    )
    assert found.flops == 2 * 3 * 4 * 5 * 6


def test_compute_bound_time_is_at_the_rate_of_the_format() -> None:
    inputs = "[torch.randn(512, 512), torch.randn(512, 512)]"
    fast = CEILINGS.model_copy(update={"copy_bandwidth": 1e15})
    found = floor("return x[0] @ x[1]", inputs, ceilings=fast)
    assert found.bound == "compute"
    assert found.floor_seconds == pytest.approx(2 * 512**3 / 1e12)
    found = floor("return x[0].double() @ x[1].double()", inputs, ceilings=fast)
    assert found.floor_seconds == pytest.approx(2 * 512**3 / 5e11)


def test_single_precision_may_be_made_of_narrower_products() -> None:
    tensor_cores = CEILINGS.model_copy(update={"copy_bandwidth": 1e15, "flops": {"float32": 1e12, "tf32": 9e12}})
    found = floor("return x[0] @ x[1]", "[torch.randn(512, 512), torch.randn(512, 512)]", ceilings=tensor_cores)
    assert found.floor_seconds == pytest.approx(2 * 512**3 / 3e12)


def test_the_cheapest_association_counts() -> None:
    inputs = "[torch.randn(4, 24, 64), torch.randn(4, 24, 96)]"
    # (X Xᵀ) Y, of which X Xᵀ is symmetric.
    least = 4 * (24 * 24 * 64 + 2 * 24 * 24 * 96)
    assert floor("return x[0] @ (x[0].mT @ x[1])", inputs).flops == least
    assert floor("return (x[0] @ x[0].mT) @ x[1]", inputs).flops == least
    chain = "[torch.randn(2, 500), torch.randn(500, 500), torch.randn(500, 3)]"
    best = 2 * 2 * 500 * 500 + 2 * 2 * 500 * 3
    assert floor("return x[0] @ (x[1] @ x[2])", chain).flops == best
    # A product that something else needs as well has to be made.
    assert floor("y = x[1] @ x[2]; return x[0] @ y, y", chain).flops == 2 * 500 * 500 * 3 + 2 * 2 * 500 * 3


def test_weights_are_folded_beforehand() -> None:
    init = "self.down = nn.Linear(64, 48, bias=False); self.up = nn.Linear(48, 8, bias=False)"
    assert floor("return self.up(self.down(x[0]))", "[torch.randn(100, 64)]", init).flops == 2 * 100 * 64 * 8
    init = "self.a = nn.Parameter(torch.randn(64, 64)); self.b = nn.Parameter(torch.randn(64, 64))"
    assert floor("return x[0] + self.a @ self.b", "[torch.randn(64, 64)]", init).flops == 64 * 64


def test_a_sum_is_taken_before_a_linear_operator() -> None:
    init = "self.linear = nn.Linear(64, 128)"
    inputs = "[torch.randn(32, 64)]"
    assert floor("return self.linear(x[0]).sum(1)", inputs, init).flops <= 2 * 32 * 64 + 3 * 32
    assert floor("return (2 * self.linear(x[0]) - 1).mean(0)", inputs, init).flops <= 2 * 64 * 128 + 3 * 128
    # Not before one that is not linear, or a square.
    assert floor("return torch.relu(self.linear(x[0])).sum(1)", inputs, init).flops >= 2 * 32 * 64 * 128
    assert floor("y = self.linear(x[0]); return (y * y).sum(1)", inputs, init).flops >= 2 * 32 * 64 * 128


@pytest.mark.parametrize(
    ("layer", "data", "direct"),
    [
        ("nn.Conv2d(8, 16, 1, bias=False)", (2, 8, 10, 10), 2 * 2 * 16 * 8 * 100),
        ("nn.Conv2d(8, 16, 3, bias=False)", (2, 8, 10, 10), 2 * 2 * 16 * 8 * 64 * 9),
        ("nn.Conv2d(8, 16, 3, stride=2, bias=False)", (2, 8, 11, 11), 2 * 2 * 16 * 8 * 25 * 9),
        ("nn.Conv2d(8, 8, 3, groups=8, bias=False)", (2, 8, 10, 10), 2 * 2 * 8 * 64 * 9),
        ("nn.Conv1d(8, 16, 3, padding=1, bias=False)", (2, 8, 10), 2 * 2 * 16 * 8 * 28),
        ("nn.ConvTranspose2d(8, 16, 3, stride=2, bias=False)", (2, 8, 5, 5), 2 * 2 * 8 * 16 * 25 * 9),
        ("nn.ConvTranspose1d(8, 16, 4, stride=2, padding=1, bias=False)", (2, 8, 6), 2 * 2 * 8 * 16 * 22),
    ],
)
def test_convolutions_count_taps_that_meet_data_by_a_minimal_algorithm(
    layer: str, data: tuple[int, ...], direct: int
) -> None:
    found = floor("return self.layer(x[0])", f"[torch.randn{data}]", f"self.layer = {layer}")
    assert direct / 4 <= found.flops <= direct
    if ", 1," in layer:
        assert found.flops == direct
    if layer == "nn.Conv2d(8, 16, 3, bias=False)":
        assert found.flops == direct * (6 / 4 / 3) ** 2


def test_a_pooled_convolution_costs_a_share() -> None:
    init = "self.layer = nn.ConvTranspose2d(8, 16, 3)"
    whole = floor("return self.layer(x[0])", "[torch.randn(2, 8, 16, 16)]", init)
    pooled = floor("return self.layer(x[0]).mean((2, 3))", "[torch.randn(2, 8, 16, 16)]", init)
    assert pooled.flops <= whole.flops / 100


def test_triangles_and_diagonals_are_not_multiplied_out() -> None:
    inputs = "[torch.randn(64, 64).tril(), torch.randn(64, 64).tril()]"
    found = floor("return torch.tril(x[0] @ x[1])", inputs)
    assert found.flops <= 2 * 64**3 / 6
    assert found.bytes <= 4 * 64 * 64 * 2.1
    assert floor("return torch.diag(x[0]) @ x[1]", "[torch.randn(64), torch.randn(64, 32)]").flops == 2 * 64 * 32


def test_a_part_of_a_sparse_matrix_may_be_all_of_its_zeros() -> None:
    half = "m = torch.where(torch.arange(64) < 32, x[0], 0.0); return m[:, %s] @ x[1]"
    inputs = "[torch.randn(64, 64), torch.randn(32, 16)]"
    assert floor(half % "32:", inputs).flops <= 64 * 64
    assert floor(half % ":32", inputs).flops <= 2 * 64 * 32 * 16 + 64 * 64
    # A part of a dense one is dense.
    thirds = "a, b, _ = (x[0] + 1).chunk(3, -1); return a @ b.mT"
    assert floor(thirds, "[torch.randn(64, 96)]").flops >= 2 * 64 * 64 * 32


def test_two_triangles_make_no_more_than_their_common_products() -> None:
    inputs = "[torch.randn(64, 64).tril(), torch.randn(64, 64).tril()]"
    assert floor("return x[0] @ x[1]", inputs).flops <= 2 * 64 * 65 * 66 / 6


def test_pointwise_attention_on_ragged_rows_counts_visible_pairs() -> None:
    lengths, n, d = (64, 40, 17), 64, 16
    inputs = f"[torch.randn({sum(lengths)}, {d}) for _ in range(3)] + [torch.tensor([0, 64, 104, 121])]"
    forward = f"""
        place = torch.arange({n})
        at = (x[3][:-1, None] + place).clamp(max={sum(lengths) - 1})
        q, k, v = (t[at] for t in x[:3])
        seen = place[:, None] >= place
        w = F.silu(q @ k.mT).masked_fill(~seen, 0.0)
        row = torch.arange({sum(lengths)})
        user = torch.bucketize(row, x[3][1:], right=True)
        return (w @ v)[user, row - x[3][user]]
    """
    products = sum(4 * d * length * (length + 1) // 2 for length in lengths)
    pointwise = 8 * len(lengths) * n * n
    assert floor(forward, inputs).flops <= products + pointwise
    full = inputs.replace("[0, 64, 104, 121]", "[0, 64, 128, 192]").replace("(121", "(192")
    every = 3 * 4 * d * n * (n + 1) // 2
    assert every <= floor(forward.replace("121", "192").replace("max=120", "max=191"), full).flops <= every + pointwise


@pytest.mark.parametrize(
    "between",
    [
        "s = torch.where(torch.ones({n}, {n}).tril() > 0, s, 0.0)",
        "s = s.masked_fill(torch.ones({n}, {n}).tril() == 0, 0.0)",
        "s = s / 8 * x[3]",
        "s = (-s).double().float()",
    ],
)
def test_attention_without_a_softmax_takes_no_more_than_a_recurrence(between: str) -> None:
    forward = "s = x[0] @ x[1].mT; " + between + "; return s @ x[2]"
    for n, d in ((256, 16), (16, 64)):
        inputs = f"[torch.randn(2, {n}, {d}) for _ in range(3)] + [torch.rand({n}, {n})]"
        found = floor(forward.format(n=n), inputs).flops
        recurrence, in_turn = (2 * 2 * 2 * one for one in (n * d * d, n * n * d))
        assert 0.5 * min(recurrence, in_turn) <= found <= min(recurrence, in_turn) + 5 * 2 * n * n
        # What is not linear between the two stands in the way.
        gated = floor(forward.replace("; return s", "; return F.silu(s)").format(n=n), inputs).flops
        assert gated >= in_turn / 2


def test_causal_attention_counts_half() -> None:
    inputs = "[torch.randn(1, 2, 64, 16) for _ in range(3)]"
    whole = floor("return F.scaled_dot_product_attention(*x)", inputs).flops
    assert whole >= 2 * 2 * 2 * 64 * 64 * 16
    masked = "s = (x[0] @ x[1].mT).masked_fill(torch.ones(64, 64).tril() == 0, -torch.inf); return s.softmax(-1)"
    products = 2 * 2 * 64 * 64 * 16
    assert products / 2 <= floor(masked, inputs).flops < products


# -- the whole ---------------------------------------------------------------------------------------------------------


def test_small_work_is_bound_by_the_launch() -> None:
    slow = CEILINGS.model_copy(update={"launch_seconds": 1e-3})
    found = floor("return x[0] + 1", "[torch.randn(8)]", ceilings=slow)
    assert found.bound == "launch"
    assert found.floor_seconds == pytest.approx(64 / 2e9)


def test_a_reference_that_cannot_be_captured_counts_its_outputs() -> None:
    forward = "return x[0] * 2 if x[0].sum() > 0 else x[0] @ x[0]"
    found = floor(forward, "[torch.rand(32, 32)]")
    assert (found.bytes, found.flops) == (4 * 32 * 32, 0.0)


def test_fraction_of_the_roofline() -> None:
    found = floor("return x[0] + 1", "[torch.randn(1000)]")
    assert found.fraction is None
    assert with_time(found, 2 * found.floor_seconds).fraction == pytest.approx(0.5)
