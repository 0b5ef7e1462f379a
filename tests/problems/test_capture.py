"""A captured graph computes what the reference computes."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import fx

from kernelevolve.errors import InvalidProblem
from kernelevolve.problems import Problem, Role, Workload
from kernelevolve.problems.capture import Captured, capture
from kernelevolve.problems.instance import Instance, load_instance
from kernelevolve.problems.loaders import load_problem
from kernelevolve.problems.outputs import flatten_outputs
from kernelevolve.problems.suites import ranking

AS_WRITTEN = Workload(name="w")


def load(source: str) -> Instance:
    return load_instance(Problem(name="p", source=source), "cpu", check=False)


def operators(captured: Captured) -> list[str]:
    nodes = captured.graph_module.graph.nodes
    return [str(node.target).split(".")[1] for node in nodes if isinstance(node.target, torch._ops.OpOverload)]


def assert_faithful(instance: Instance, workload: Workload, seed: int = 0) -> Captured:
    """Captured under seed 0, compared on other inputs and on the weights of ``seed``."""
    captured = capture(instance, workload, seed=0)
    model, weights = instance.make_reference(workload, seed), instance.make_weights(workload, seed)
    inputs = instance.make_inputs(workload, 7)
    assert captured.weight_names == tuple(weights)
    with torch.no_grad():
        expected, found = flatten_outputs(model(*inputs)), captured.run(weights, inputs)
    assert captured.output_paths == tuple(path for path, _ in expected)
    for (_, want), got in zip(expected, found, strict=True):
        assert got.dtype == want.dtype and got.shape == want.shape
        torch.testing.assert_close(got, want, equal_nan=True)
    placeholders = [n for n in captured.graph_module.graph.nodes if n.op == "placeholder"]
    given = [*weights.values(), *captured.constants.values(), *dict(flatten_outputs(inputs)).values()]
    for node, tensor in zip(placeholders, given, strict=True):
        assert node.meta["val"].shape == tensor.shape and node.meta["val"].dtype == tensor.dtype
    for node in captured.graph_module.graph.nodes:
        assert node.op in ("placeholder", "call_function", "output")
        assert node.op != "call_function" or "val" in node.meta
    return captured


@pytest.mark.parametrize("name", ranking.names())
def test_ranking_problems(name: str) -> None:
    instance = load_instance(load_problem(f"ranking/{name}"), "cpu", check=False)
    workload = next(w for w in instance.workloads if w.role is Role.HELD_OUT)
    found = set(operators(assert_faithful(instance, workload, seed=5)))
    kept = {
        "conv1d": {"convolution"},
        "dcn_v2_cross": {"addmm", "mul", "add"},
        "embedding_bag_sum": {"_embedding_bag"},
        "hstu_attention": {"bmm", "bucketize", "index", "sigmoid", "where"},
        "jagged_softmax": {"segment_reduce", "bucketize", "index", "exp", "div"},
        "map_id": {"bucketize", "gather", "where"},
        "masked_softmax": {"_softmax", "where"},
        "mbdt": {"searchsorted", "add"},
        "optimized_fm": {"bmm"},
        "pffn": {"bmm", "gelu", "rsqrt"},
    }
    assert kept.get(name, {"mean", "rsqrt", "mul"}) <= found


HEAD = """
import torch
from collections import namedtuple
from torch import nn
import torch.nn.functional as F
Pair = namedtuple("Pair", "left right")
"""

FULL = (
    HEAD
    + """
class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.unused = nn.Parameter(torch.ones(2))
        self.first = nn.Linear(6, 6)
        self.second = nn.Linear(6, 6)
        self.second.weight = self.first.weight
        self.norm = nn.LayerNorm(6)
        self.bn = nn.BatchNorm1d(6)
        self.register_buffer("hidden", torch.randn(6), persistent=False)
        self.plain = torch.randn(6)

    def forward(self, x, extra, n, flag):
        y = self.second(F.gelu(self.first(x))) * n + self.hidden * self.plain + torch.tensor(2.0)
        if flag:
            y = self.bn(self.norm(y)) + torch.baddbmm(extra["q"], extra["q"], extra["q"]).sum()
        return {"y": torch.max(y, 1), "rest": [y, None, 3, extra["pair"].left + n]}

def get_inputs():
    return [torch.randn(4, 6), {"q": torch.randn(2, 3, 3), "pair": Pair(torch.randn(2), 5)}, 3, True]
"""
)


def test_everything_at_once() -> None:
    instance = load(FULL)
    captured = assert_faithful(instance, AS_WRITTEN)
    assert captured.input_paths == ("0", "1.q", "1.pair.left")
    assert captured.output_paths == ("y.values", "y.indices", "rest.0", "rest.3")
    assert len(captured.constants) == 3
    assert {"native_layer_norm", "_native_batch_norm_legit_no_training", "baddbmm", "gelu", "addmm"} <= set(
        operators(captured)
    )


def test_dtype_and_layout_follow_the_workload() -> None:
    instance = load(FULL)
    captured = capture(instance, Workload(name="w", dtype="bfloat16", contiguous=False))
    nodes = [n for n in captured.graph_module.graph.nodes if n.op == "placeholder"]
    (x,) = (n for n in nodes if n.name == "input_0")
    assert x.meta["val"].dtype is torch.bfloat16
    assert x.meta["val"].stride() == (13, 2)


def test_a_graph_is_functional_even_if_the_reference_is_not() -> None:
    source = HEAD + (
        "class Model(nn.Module):\n    def forward(self, x):\n        y = x.clone()\n        y[:, 1:] += 1\n"
        "        y.relu_()\n        return y.mul_(2)\n\ndef get_inputs():\n    return [torch.randn(3, 4)]\n"
    )
    captured = assert_faithful(load(source), AS_WRITTEN)
    assert not [name for name in operators(captured) if name.endswith("_")]


# What torch.export refuses, and make_fx can follow.
CUSTOM = (
    HEAD
    + """
class Twice(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, w):
        return 2 * x * w
    @staticmethod
    def backward(ctx, g):
        return 2 * g, None

class Odd:
    def __init__(self, value):
        self.value = value

class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.w = nn.Parameter(torch.randn(4))
        self.plain = torch.randn(4)
    def forward(self, x, odd):
        return Twice.apply(x, self.w) + self.plain + odd.value

def get_inputs():
    return [torch.randn(3, 4), Odd(3)]
"""
)


def test_what_the_exporter_refuses_is_traced() -> None:
    instance = load(CUSTOM)
    with pytest.raises(Exception, match="Odd"):
        torch.export.export(instance.make_model(0), instance.make_inputs(AS_WRITTEN, 0), strict=False)
    captured = assert_faithful(instance, AS_WRITTEN)
    assert captured.weight_names == ("w",)


def test_control_flow_on_values_is_refused_with_a_reason() -> None:
    source = HEAD + (
        "class Model(nn.Module):\n    def forward(self, x):\n        return x + 1 if x.sum() > 0 else x - 1\n\n"
        "def get_inputs():\n    return [torch.randn(3, 4)]\n"
    )
    with pytest.raises(InvalidProblem, match=r"cannot be captured as a graph: .*data-dependent") as caught:
        capture(load(source), AS_WRITTEN)
    assert "\n" not in caught.value.sentence


def test_capturing_leaves_no_trace(capfd: pytest.CaptureFixture[str], recwarn: Any) -> None:
    capture(load(FULL), AS_WRITTEN)
    assert capfd.readouterr() == ("", "")
    assert not [w for w in recwarn if "export" in str(w.message).lower()]


def test_the_graph_s_own_code_is_complete() -> None:
    module = capture(load(FULL), AS_WRITTEN).graph_module
    assert isinstance(module, fx.GraphModule)
    assert not list(module.parameters()) and not list(module.buffers())


@pytest.mark.parametrize("layer", ["LSTM", "GRU", "RNN"])
def test_recurrent_layers_are_not_unrolled(layer: str) -> None:
    source = HEAD + (
        f"class Model(nn.Module):\n    def __init__(self):\n        super().__init__()\n"
        f"        self.layer = nn.{layer}(3, 5, 2, bidirectional=True)\n"
        "    def forward(self, x):\n        return self.layer(x)[0]\n\n"
        "def get_inputs():\n    return [torch.randn(9, 2, 3)]\n"
    )
    captured = assert_faithful(load(source), AS_WRITTEN, seed=5)
    assert {"lstm", "gru", "rnn_tanh"} & set(operators(captured))
