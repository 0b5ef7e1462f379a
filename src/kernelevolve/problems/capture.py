"""Capture: the reference as an ATen graph with static shapes, for physics and for synthesis.

What a consumer meets: ``call_function`` nodes over core ATen (``torch.export`` decompositions), each with a fake tensor
(or tuple of them) in ``node.meta['val']``. Matrix products, convolutions, ``_softmax``, ``native_layer_norm``,
``embedding``, ``_embedding_bag``, ``bucketize``, ``searchsorted``, ``gather``, ``index`` and activations such as ``gelu``
stay single nodes. Placeholders are the weights by their state-dict names, then the tensors among the inputs.
"""

from __future__ import annotations

import logging
import warnings
from dataclasses import dataclass
from typing import Any

import torch
from torch import fx
from torch.export.graph_signature import InputKind, OutputKind

from kernelevolve.errors import InvalidProblem
from kernelevolve.problems.instance import Instance
from kernelevolve.problems.outputs import flatten_outputs
from kernelevolve.problems.workload import Workload

_KEPT = (
    "aten.linear.default", "aten.conv1d.default", "aten.conv2d.default", "aten.rms_norm.default",
    "aten.baddbmm.default", "aten.addmm.default", "aten.softmax.int", "aten.layer_norm.default",
)  # fmt: skip


@dataclass(frozen=True)
class Captured:
    """An ATen graph and how its placeholders and outputs relate to the problem."""

    graph_module: fx.GraphModule
    weight_names: tuple[str, ...]
    """State-dict names, one for each of the first placeholders."""
    constants: dict[str, torch.Tensor]
    """Placeholder name -> tensor, for tensors that the module holds outside its state dict; they follow the weights."""
    input_paths: tuple[str, ...]
    """Paths (``flatten_outputs`` of the argument tuple) of the tensor inputs, one for each of the last placeholders."""
    output_paths: tuple[str, ...]
    """Paths of all leaves of the result, in order; one for each output of the graph."""

    def run(self, weights: dict[str, torch.Tensor], inputs: tuple[Any, ...]) -> list[Any]:
        """Execute the graph: the flattened result. For tests and fall-backs, not for speed."""
        leaves = dict(flatten_outputs(inputs))
        arguments = [weights[name] for name in self.weight_names]
        arguments += list(self.constants.values())
        arguments += [leaves[path] for path in self.input_paths]
        return list(self.graph_module(*arguments))


def capture(instance: Instance, workload: Workload, seed: int = 0) -> Captured:
    """The graph of the reference on one workload's shapes and dtypes.

    Raises InvalidProblem if the reference cannot be captured (data-dependent control flow, unsupported Python).
    """
    model = instance.make_model(seed)
    if workload.dtype is not None:
        model = model.to(getattr(torch, workload.dtype))
    model.eval()
    inputs = instance.make_inputs(workload, seed)
    level = logging.getLogger("torch.export").level
    try:
        logging.getLogger("torch.export").setLevel(logging.ERROR)
        with warnings.catch_warnings(), torch.no_grad():
            warnings.simplefilter("ignore")
            program = torch.export.export(model, inputs, strict=False)
            program = program.run_decompositions(_decompositions())
            result = model(*inputs)
    except Exception as error:
        message = str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
        raise InvalidProblem(
            f"the reference cannot be captured as a graph: {message[:300]}",
            path=instance.problem.path or instance.problem.name,
            fix="it can still be judged; only the built-in operator and the roofline need the graph",
        ) from None
    finally:
        logging.getLogger("torch.export").setLevel(level)
    return _functional(program, inputs, [path for path, _ in flatten_outputs(result)])


def _decompositions() -> Any:
    """Core ATen, but for the composites that consumers want whole."""
    table = torch.export.default_decompositions()
    for name in list(table):
        if str(name) in _KEPT:
            table.pop(name)
    return table


def _functional(program: torch.export.ExportedProgram, inputs: tuple[Any, ...], paths: list[str]) -> Captured:
    """The exported graph with placeholders ordered as weights, constants, tensor inputs, and user outputs only."""
    graph = program.graph_module.graph
    placeholders = {node.name: node for node in graph.nodes if node.op == "placeholder"}
    weights: list[tuple[str, fx.Node]] = []
    constants: list[tuple[fx.Node, torch.Tensor]] = []
    arguments: list[tuple[str, fx.Node]] = []
    leaves = iter(flatten_outputs(inputs))
    for spec in program.graph_signature.input_specs:
        node = placeholders[spec.arg.name]
        if spec.kind is InputKind.USER_INPUT:
            path, leaf = next(leaves)
            if isinstance(leaf, torch.Tensor):
                arguments.append((path, node))
            else:
                node.replace_all_uses_with(leaf)
                graph.erase_node(node)
        elif spec.target is not None and spec.target in program.state_dict:
            weights.append((spec.target, node))
        else:
            value = program.constants[str(spec.target)]
            assert isinstance(value, torch.Tensor)
            constants.append((node, value.detach()))
    _reorder(graph, [n for _, n in weights] + [n for n, _ in constants] + [n for _, n in arguments])
    (output,) = (node for node in graph.nodes if node.op == "output")
    kinds = [spec.kind for spec in program.graph_signature.output_specs]
    output.args = (tuple(v for v, kind in zip(output.args[0], kinds, strict=True) if kind is OutputKind.USER_OUTPUT),)
    for node in list(graph.nodes):
        if node.op == "call_function" and "_assert" in str(node.target):
            graph.erase_node(node)  # Guards of the exporter; shapes and dtypes are static here.
    graph.eliminate_dead_code()
    module = fx.GraphModule(program.graph_module, graph)
    return Captured(
        module, tuple(name for name, _ in weights), {node.name: value for node, value in constants},
        tuple(path for path, _ in arguments), tuple(paths),
    )  # fmt: skip


def _reorder(graph: fx.Graph, order: list[fx.Node]) -> None:
    """Put placeholders first, in this order."""
    root = next(iter(graph.nodes))
    anchor = None
    for node in order:
        if anchor is None:
            if node is not root:
                root.prepend(node)
        else:
            anchor.append(node)
        anchor = node
