"""References for the synthesis, a family of operations each; every result of ``forward`` is compared on its own."""

from __future__ import annotations

from kernelevolve.problems import Problem


def problem(name: str, forward: str, inputs: str, init: str = "", arguments: str = "") -> Problem:
    """A problem from the lines of ``forward`` (its parameters first), of ``get_inputs`` and of ``__init__``."""
    parameters, _, body = forward.strip().partition("\n")

    def indented(text: str, depth: int) -> str:
        return "\n".join(f"{' ' * depth}{line}" for line in text.strip().splitlines())

    source = f"""
import torch
import torch.nn.functional as F
from torch import nn


class Model(nn.Module):
    def __init__(self):
        super().__init__()
{indented(init or "pass", 8)}

    def forward(self, {parameters.strip()}):
{indented(body, 8)}


def get_inputs({arguments}):
    return [{inputs}]
"""
    return Problem(name=name, source=source)


CASES: dict[str, Problem] = {}


def _case(name: str, forward: str, inputs: str, init: str = "", arguments: str = "") -> None:
    CASES[name] = problem(name, forward, inputs, init, arguments)


_case(
    "elementary functions",
    """x
return (torch.exp(x), torch.expm1(x), torch.log(x.abs() + 0.1), torch.log1p(x.abs()), torch.sqrt(x.abs()),
        torch.rsqrt(x.abs() + 0.5), torch.sin(x), torch.cos(x), torch.tanh(x), torch.erf(x), torch.sigmoid(x),
        torch.reciprocal(x + 9), torch.floor(x), torch.ceil(x), torch.round(x), torch.trunc(x), torch.abs(x),
        torch.neg(x), torch.sign(x), torch.exp2(x), torch.log2(x.abs() + 1), torch.log10(x.abs() + 1), torch.atan(x),
        torch.sinh(x), torch.acosh(x.abs() + 1.5), torch.square(x))""",
    "2 * torch.randn(7, 33)",
)
_case(
    "activations",
    """x
return (F.relu(x), F.gelu(x), F.gelu(x, approximate="tanh"), F.silu(x), F.mish(x), F.softplus(x), F.leaky_relu(x, 0.2),
        F.elu(x, 1.3), F.selu(x), F.hardtanh(x, -0.7, 0.8), F.hardswish(x), F.hardsigmoid(x), F.relu6(x), F.softsign(x),
        F.logsigmoid(x), F.celu(x, 0.7), F.tanhshrink(x), F.hardshrink(x), F.softshrink(x), F.glu(x, -1))""",
    "3 * torch.randn(5, 34)",
)
_case(
    "binary arithmetic",
    """x, y
return (x + y, x - y, x * y, x / (y.abs() + 1), torch.maximum(x, y), torch.minimum(x, y), torch.atan2(x, y), x ** 2,
        x ** 3, x.abs() ** 0.5, (x.abs() + 0.1) ** 1.7, torch.add(x, y, alpha=2.5), torch.rsub(x, y),
        torch.fmod(x, 0.7), torch.remainder(x, 0.7), torch.floor_divide(x, 0.3), torch.clamp(x, -0.5, 0.5),
        torch.clamp(x, min=0.1), torch.lerp(x, y, 0.3), torch.addcmul(x, x, y, value=0.5), torch.copysign(x, y),
        torch.hypot(x, y), torch.xlogy(x, y.abs() + 1), torch.where(x > y, x, y), x.masked_fill(y > 0, -1.5))""",
    "torch.randn(6, 35), torch.randn(6, 35)",
)
_case(
    "integers and booleans",
    """i, j, b
return (i + j, i - j, i * j, i // 3, i % 5, torch.div(i, 4, rounding_mode="trunc"), i & j, i | j, i ^ j, ~i, -i,
        i.abs(), i == j, i < j, b & (i > 0), b | (i > 3), ~b, b ^ (i > 1), i / 3, i + 0.5, i * b, i.to(torch.int32),
        i.float(), b.float() + 1, torch.where(b, i, j), torch.logical_and(i, j), torch.logical_not(i), i.clamp(-2, 3),
        torch.maximum(i, j), b.sum(), i.sum(1), i.to(torch.int8) * 100, (i > 0).any(0), b.all(1), i.amax(1), i ** 2)""",
    "torch.randint(-9, 9, (4, 19)), torch.randint(-9, 9, (4, 19)), torch.rand(4, 19) > 0.5",
)
_case(
    "special values",
    """x
return (torch.isnan(x), torch.isinf(x), torch.nan_to_num(x), torch.maximum(x, x.flip(0)), torch.relu(x), x.amax(0),
        torch.clamp(x, -1, 1), x == x, torch.sign(x), x.sum(0), F.silu(x), torch.tanh(x), torch.softmax(x, -1),
        x.argmax(0), x.max(1).indices)""",
    'torch.tensor([[1.0, float("inf"), -2.0, 3.0], [float("nan"), 1.0, float("-inf"), 0.5], [0.0, -0.0, 2.0, 7.0]])',
)
_case(
    "broadcasting",
    """x, row, column, scalar
return (x + row, x * column, x / scalar, row * column, (x + row) * column - scalar, x + 1, row.expand(5, 17) * 2,
        torch.where(x > 0, row, column))""",
    "torch.randn(5, 17), torch.randn(17), torch.randn(5, 1), torch.tensor(2.5)",
)
_case(
    "reductions",
    """x
return (x.sum(), x.sum(0), x.sum(1), x.sum(2), x.sum((0, 2)), x.sum((1, 2), keepdim=True), x.mean(), x.mean(1),
        x.mean(2, keepdim=True), x.amax(2), x.amin(1), x.amax((0, 1)), x.prod(2), x.var(2), x.var(0), x.std(1),
        x.var((0, 2), unbiased=False), torch.var_mean(x, 2)[1], x.argmax(2), x.argmin(1), x.argmax(), x.max(2).values,
        x.min(0).indices, torch.logsumexp(x, 2), torch.linalg.vector_norm(x, dim=2), x.abs().sum(2), (x > 0).sum(2),
        (x > 2).any(2), (x > -3).all(1), x.norm(dim=1))""",
    "torch.randn(5, 6, 37)",
)
_case(
    "reductions over long rows",
    "x\nreturn x.sum(1), x.mean(), x.amax(1), x.var(1), x.argmax(1), x.sum(0), x.sum()",
    "torch.randn(3, 5003)",
)
_case(
    "softmax and normalisation",
    """x
return (torch.softmax(x, -1), torch.softmax(x, 1), torch.log_softmax(x, -1), F.layer_norm(x, (33,)), self.layer(x),
        F.layer_norm(x, (6, 33)), self.group(x), self.instance(x), self.batch(x),
        x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6) * self.gain, F.normalize(x, dim=-1),
        torch.ops.aten._fused_rms_norm(x, [33], self.gain, 1e-6)[0], torch.ops.aten._fused_rms_norm(x, [6, 33], None, None))""",
    "torch.randn(4, 6, 33)",
    """self.layer = nn.LayerNorm(33)
self.group = nn.GroupNorm(3, 6)
self.instance = nn.InstanceNorm1d(6, affine=True)
self.batch = nn.BatchNorm1d(6)
self.gain = nn.Parameter(torch.rand(33))
nn.init.normal_(self.layer.weight)
nn.init.normal_(self.group.bias)
self.batch.running_var.uniform_(0.5, 2)
self.batch.running_mean.normal_()""",
)
_case(
    "normalisation of images",
    "x\nreturn F.relu(self.group(x)), self.batch(x).sum((2, 3)), torch.tanh(self.instance(x)), x.mean((2, 3))",
    "torch.randn(3, 8, 5, 7)",
    "self.group = nn.GroupNorm(4, 8)\nself.batch = nn.BatchNorm2d(8)\nself.instance = nn.InstanceNorm2d(8)",
)
_case(
    "views",
    """x
a, b = x.chunk(2, dim=2)
return (x.permute(2, 0, 1) + 1, x.reshape(24, 10) * 2, x.transpose(0, 1).reshape(6, 40).sum(1), x[:, 1:5:2] - 1,
        x[..., 3], x.unsqueeze(1).expand(4, 3, 6, 10).sum(1), a * b, torch.cat([x, a], 2), torch.stack([a, b], 1),
        F.pad(x, (1, 2), value=0.5) + 1, F.pad(x, (1, 1, 2, 0)).sum(1), x.flip(1) * x, x.roll(2, 1), x.flatten(1).amax(1),
        x.view(4, 3, 2, 10).transpose(1, 2).reshape(4, 6, 10) + x, x.unfold(2, 3, 2).sum(-1), x.repeat(1, 2, 1),
        torch.tril(x), x.t_() if False else x.mT, x.narrow(1, 2, 3), x.select(0, 2), x)""",
    "torch.randn(4, 6, 10)",
)
_case(
    "gather and search",
    """x, i, table, borders
return (torch.gather(x, 1, i), x.index_select(1, i[0]), F.embedding(i, table), table[i].sum(1), x[:, i[0]],
        torch.bucketize(x, borders), torch.bucketize(x, borders, right=True), torch.searchsorted(borders, x) + 1,
        torch.take_along_dim(x, i, 1), torch.bucketize(x, borders, out_int32=True), x.gather(1, -1 - i + 7).amax(1))""",
    "torch.randn(5, 23), torch.randint(0, 7, (5, 9)), torch.randn(7, 12), torch.randn(13).sort().values",
)
_case(
    "bags of embeddings",
    """i, offsets, w
return (F.embedding_bag(i, self.a.weight, offsets, mode="sum"), self.a(i, offsets), self.b(i, offsets),
        F.embedding_bag(i, self.a.weight, offsets, mode="sum", per_sample_weights=w),
        self.b(i.view(6, 5)), F.embedding_bag(i, self.a.weight, offsets, mode="max"))""",
    "torch.randint(0, 11, (30,)), torch.tensor([0, 3, 3, 17, 29]), torch.randn(30)",
    'self.a = nn.EmbeddingBag(11, 20, mode="mean")\nself.b = nn.EmbeddingBag(11, 33, mode="sum")',
)
_case(
    "matrix products",
    """x, y, batch, other
return (x @ y, self.linear(x), F.gelu(self.linear(x)), torch.bmm(batch, other), torch.baddbmm(batch[:, :, :1], batch, other),
        batch.transpose(1, 2) @ batch, torch.addmm(x[0, :7], x, y, alpha=0.5, beta=2), torch.softmax(x @ y, -1),
        F.layer_norm(self.linear(x), (29,)), torch.einsum("bij,bkj->bik", batch, batch), x @ x[0], self.linear(batch),
        (x @ y).sum(1), x.t() @ x)""",
    "torch.randn(13, 21), torch.randn(21, 7), torch.randn(3, 10, 21), torch.randn(3, 21, 5)",
    "self.linear = nn.Linear(21, 29)",
)
_case(
    "attention",
    """q, k, v
scores = torch.softmax(q @ k.transpose(-1, -2) * 0.3, -1)
return scores @ v, F.scaled_dot_product_attention(q, k, v), F.scaled_dot_product_attention(q, k, v, is_causal=True)""",
    "torch.randn(2, 3, 9, 8), torch.randn(2, 3, 9, 8), torch.randn(2, 3, 9, 8)",
)
_case(
    "perceptron",
    """x
h = F.gelu(self.one(x))
h = h * torch.rsqrt(h.pow(2).mean(-1, keepdim=True) + 1e-5)
return torch.sigmoid(self.two(h)), x + self.two(h)""",
    "torch.randn(37, 24)",
    "self.one = nn.Linear(24, 50)\nself.two = nn.Linear(50, 24)",
)
_case(
    "convolutions",
    """x, image
return (self.one(x), F.relu(self.strided(x)), self.two(image), F.gelu(self.grouped(image)), self.depthwise(image),
        self.point(image) * 2, self.back(image), self.dilated(image).mean((2, 3)), self.one(x).sum(1))""",
    "torch.randn(3, 8, 21), torch.randn(2, 8, 9, 10)",
    """self.one = nn.Conv1d(8, 12, 3, padding=1)
self.strided = nn.Conv1d(8, 5, 4, stride=2)
self.two = nn.Conv2d(8, 6, 3, padding=1)
self.grouped = nn.Conv2d(8, 12, 3, padding=1, groups=4)
self.depthwise = nn.Conv2d(8, 8, 3, padding=2, groups=8, bias=False)
self.point = nn.Conv2d(8, 7, 1)
self.back = nn.ConvTranspose2d(8, 5, 3, stride=2)
self.dilated = nn.Conv2d(8, 4, 3, dilation=2)""",
)
_case(
    "pooling",
    """x
return (F.max_pool2d(x, 2), F.max_pool2d(x, 3, 2, 1), F.avg_pool2d(x, 2), F.avg_pool2d(x, 3, 1, 1),
        F.adaptive_avg_pool2d(x, 1), F.adaptive_avg_pool2d(x, (4, 3)), F.avg_pool1d(x.flatten(2), 4),
        F.max_pool1d(x.flatten(2), 3), F.max_pool2d(torch.relu(x), 2) + 1)""",
    "torch.randn(2, 5, 8, 9)",
)
_case(
    "what stays a torch call",
    """x
values, order = torch.sort(x, 1)
return torch.cumsum(x, 1) + 1, values * 2, order, torch.topk(x, 3).values, torch.linalg.inv(x[:, :7] + 9 * torch.eye(7))""",
    "torch.randn(7, 20)",
)
_case(
    "losses",
    """x, target, labels
return (F.mse_loss(x, target), F.smooth_l1_loss(x, target), F.cross_entropy(x, labels), F.kl_div(x, target.softmax(1)),
        F.binary_cross_entropy_with_logits(x, target.sigmoid()), F.cosine_similarity(x, target), F.hinge_embedding_loss(x, target.sign()),
        F.nll_loss(x, labels), F.triplet_margin_loss(x, target, target.flip(0)))""",
    "torch.randn(9, 14), torch.randn(9, 14), torch.randint(0, 14, (9,))",
)
_case(
    "several dtypes",
    """half, brain, double, mask
return (half * 2 + 1, torch.softmax(brain, -1), double.exp() + double.sum(1, keepdim=True), half.float() + brain.float(),
        half.sum(1), brain.mean(), F.gelu(half), half @ half.t(), torch.where(mask, half, 0), brain.to(torch.float16),
        half + double, F.layer_norm(half, (24,)), double @ double.t(), brain.amax(0), half.std(1), half > 0.5)""",
    "torch.randn(10, 24).half(), torch.randn(10, 24).bfloat16(), torch.randn(10, 24).double(), torch.rand(10, 24) > 0.5",
)
_case(
    "state of every kind",
    """batch, scale=2.0
ids = batch["ids"]
return {"pooled": self.table(ids).sum(1) * scale, "rest": [self.inner[0](batch["x"]) + self.shift, self.constant + 1, None]}""",
    '{"ids": torch.randint(0, 5, (4, 3)), "x": torch.randn(4, 6)}, 2.0',
    """self.table = nn.Embedding(5, 6)
self.inner = nn.ModuleList([nn.Sequential(nn.Linear(6, 6), nn.ReLU())])
self.register_buffer("shift", torch.randn(6))
self.constant = torch.arange(6.0)""",
)
_case(
    "long chain",
    "x\n" + "\n".join(f"x = torch.tanh(x * {1 + i / 7:.3f} + {i}) + torch.sin(x)" for i in range(24)) + "\nreturn x",
    "torch.randn(9, 31)",
)
_case("a scalar result", "x\nreturn (x * 2).mean().sqrt()", "torch.rand(3, 4)")
_case("one element", "x\nreturn torch.softmax(x * 2, -1), x.sum(), x.var(1, unbiased=False)", "torch.rand(1, 1)")
_case("nothing to compute", "x\nreturn x, x.t(), x[0]", "torch.rand(3, 4)")
_case("an input twice", "x\ny = x + 1\nreturn y, y, y.t(), y * 2", "torch.rand(3, 4)")
_case(
    "many tables",
    """indices, offsets, x
pooled = [F.embedding_bag(i, t.weight, o, mode="sum") for i, t, o in zip(indices, self.tables, offsets)]
ids = [torch.bucketize(x[f], b) + 100 * f for f, b in enumerate(self.borders())]
return torch.stack(pooled, 1), torch.cat(pooled, 1), torch.stack(ids), torch.cat([t(i[:6]) for i, t in zip(indices, self.tables)], 1)""",
    """[torch.randint(0, 9 + k, (20 + k,)) for k in range(5)], [torch.tensor([0, 3, 3, 11, 16]) for _ in range(5)],
            torch.randn(5, 40)""",
    """self.tables = nn.ModuleList([nn.Embedding(9 + k, 24) for k in range(5)])
for k in range(5):
    self.register_buffer(f"b{k}", torch.randn(3 + 2 * k).sort().values)
self.borders = lambda: [getattr(self, f"b{k}") for k in range(5)]""",
)
_case(
    "long reductions to few values",
    "x, y\nreturn (x - y).square().mean(), x.amax(), y.sum((1, 2)), (x * y).std(), (x > 5).any(), x.flatten().sum(0)",
    "torch.randn(4, 32, 1024), torch.randn(4, 32, 1024)",
)
_case(
    "pooled by table",
    "ids, offsets\nreturn F.embedding_bag(ids, self.table.weight, offsets, mode='sum').view(3, -1, 16).transpose(0, 1)",
    "torch.randint(0, 30, (40,)), torch.tensor([0, 4, 4, 11, 19, 25, 30, 31, 38])",
    "self.table = nn.Embedding(30, 16)",
)
