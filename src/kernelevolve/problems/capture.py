"""Capture: the reference as an ATen graph for physics and for synthesis.

What a consumer meets. Every node between placeholders and output is a ``call_function`` of a core ATen overload, or
``operator.getitem`` on one with several results; ``node.meta['val']`` is a fake tensor or a tuple of them. Nothing is
in place, and views stay views.

* Kept whole: ``mm``, ``bmm``, ``addmm``, ``baddbmm``, ``convolution``, ``_softmax``, ``_log_softmax``,
  ``native_layer_norm``, ``native_group_norm``, ``_native_batch_norm_legit_no_training``, ``embedding``,
  ``_embedding_bag``, ``bucketize``, ``searchsorted``, ``gather``, ``index``, ``index_select``, pooling, the
  recurrent layers ``lstm``, ``gru``, ``rnn_tanh`` and ``rnn_relu``, and the activations ``gelu``, ``relu``,
  ``sigmoid``, ``tanh``, ``leaky_relu``, ``elu`` and ``hardtanh``.
* Taken apart: ``linear`` (``permute``, then ``addmm`` or ``mm``), ``matmul`` and ``einsum`` (``bmm`` and views),
  RMSNorm (``pow``, ``mean``, ``rsqrt``, ``mul``), ``silu``, ``mish``, ``softplus`` and losses (pointwise and
  reductions), attention (``bmm``, ``_softmax``, and ``where`` for rows that are masked out entirely).

Sizes are numbers, unless symbolic ones are asked for: then shapes hold SymInts, and ``aten.sym_size.int`` and Python
arithmetic on its results stand among the nodes.
"""

from __future__ import annotations

import itertools
import logging
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, TypeAlias

import torch
from torch import fx, nn
from torch.export.graph_signature import ConstantArgument, InputKind, OutputKind
from torch.fx.experimental.proxy_tensor import make_fx
from torch.utils._pytree import tree_flatten, tree_unflatten

from kernelevolve.errors import InvalidProblem
from kernelevolve.problems.instance import Instance
from kernelevolve.problems.outputs import flatten_outputs, named_leaves
from kernelevolve.problems.values import map_tensors
from kernelevolve.problems.workload import Workload

Decompositions: TypeAlias = dict[Any, Any]

_WHOLE = frozenset(
    {"aten.baddbmm.default", "aten.lstm.input", "aten.gru.input", "aten.rnn_tanh.input", "aten.rnn_relu.input"}
)
"""Overloads that core ATen takes apart and consumers want whole; recurrent layers would be unrolled over time."""


@dataclass(frozen=True)
class Captured:
    """An ATen graph, and how its placeholders and outputs relate to the problem.

    The placeholders are the weights, then the constants, then the tensors among the inputs. The output is a tuple of
    the tensors in the result. Plain values among the inputs are part of the graph.
    """

    graph_module: fx.GraphModule
    weight_names: tuple[str, ...]
    """Names of the reference's state dict, all of them and in its order, one for each of the first placeholders."""
    constants: dict[str, torch.Tensor]
    """Placeholder name -> value, for tensors that the reference holds outside its state dict or makes from literals."""
    input_paths: tuple[str, ...]
    """Paths (``flatten_outputs`` of the argument tuple) of the tensor inputs, one for each of the last placeholders."""
    output_paths: tuple[str, ...]
    """Paths (``flatten_outputs`` of the result) of the tensors in the output, in its order."""
    output_template: str
    """The result as a format string over the output: '{0}', '({0}, {1},)', "{{'logits': {0},}}"."""

    def run(self, weights: Mapping[str, torch.Tensor], inputs: tuple[Any, ...]) -> list[torch.Tensor]:
        """Execute the graph on other weights and inputs of the same shapes: the tensors at ``output_paths``."""
        tensors = dict(flatten_outputs(inputs))
        arguments = [weights[name] for name in self.weight_names]
        arguments += list(self.constants.values())
        arguments += [tensors[path] for path in self.input_paths]
        return list(self.graph_module(*arguments))


def capture(instance: Instance, workload: Workload, seed: int = 0, *, varying: Sequence[Workload] = ()) -> Captured:
    """The graph of the reference on one workload's shapes and dtypes.

    Input sizes in which the workloads in ``varying`` differ from it are symbolic, as far as the reference allows.
    Raises InvalidProblem if it cannot be captured, for example because its control flow depends on values.
    """
    model = instance.make_reference(workload, seed)
    inputs = instance.make_inputs(workload, seed)
    with _quiet(), torch.no_grad():
        try:
            return _exported(model, inputs, _varying_sizes(inputs, [instance.make_inputs(w, seed) for w in varying]))
        except Exception as error:
            refusal = error
        try:
            return _traced(model, inputs)
        except Exception:
            lines = [line.strip() for line in str(refusal).splitlines() if line.strip()] or [type(refusal).__name__]
            raise InvalidProblem(
                f"the reference cannot be captured as a graph: {lines[0][:300]}",
                path=instance.problem.path or instance.problem.name,
                fix="take control flow that depends on tensor values out of forward",
            ) from None


def _exported(model: nn.Module, inputs: tuple[Any, ...], sizes: Any) -> Captured:
    """Through ``torch.export``, which also follows Python that ``make_fx`` cannot."""
    program = torch.export.export(model, inputs, dynamic_shapes=sizes, strict=False)
    program = program.run_decompositions(_decompositions())
    signature = program.graph_signature
    nodes = {node.name: node for node in program.graph.nodes if node.op == "placeholder"}
    weights: dict[str, fx.Node] = {}
    constants: list[tuple[fx.Node, torch.Tensor]] = []
    arguments: list[fx.Node | None] = []
    for spec in signature.input_specs:
        node = nodes[spec.arg.name]
        if spec.kind is InputKind.USER_INPUT:
            arguments.append(None if isinstance(spec.arg, ConstantArgument) else node)
        elif spec.kind is InputKind.PARAMETER or (spec.kind is InputKind.BUFFER and spec.persistent):
            weights[str(spec.target)] = node
        else:
            held = program.constants if str(spec.target) in program.constants else program.state_dict
            constants.append((node, held[str(spec.target)].detach()))
    (output,) = (node for node in program.graph.nodes if node.op == "output")
    kinds = [spec.kind for spec in signature.output_specs]
    results = [v for v, kind in zip(output.args[0], kinds, strict=True) if kind is OutputKind.USER_OUTPUT]
    result = tree_unflatten(results, program.call_spec.out_spec)
    paths = [path for path, leaf in named_leaves(inputs)]
    tensors = [(path, node) for path, node in zip(paths, arguments, strict=True) if node is not None]
    return _arranged(program.graph_module, model, weights, constants, tensors, result)


def _varying_sizes(inputs: tuple[Any, ...], others: list[tuple[Any, ...]]) -> Any:
    """For each leaf of the inputs the dimensions in which the others differ, in the form ``torch.export`` takes."""
    leaves, structure = tree_flatten(inputs)
    found: list[dict[int, Any] | None] = []
    for position, leaf in enumerate(leaves):
        shapes = [tree_flatten(other)[0][position].shape for other in others] if isinstance(leaf, torch.Tensor) else []
        ranks = range(leaf.ndim if shapes else 0)
        moved = [d for d in ranks if any(s[d : d + 1] != leaf.shape[d : d + 1] for s in shapes)]
        found.append(dict.fromkeys(moved, torch.export.Dim.AUTO) or None)
    return tree_unflatten(found, structure) if any(found) else None


def _traced(model: nn.Module, inputs: tuple[Any, ...]) -> Captured:
    """Through ``make_fx`` on fake tensors, where the exporter refuses (custom autograd functions, odd containers)."""
    state = model.state_dict()
    inputs_by_path = dict(flatten_outputs(inputs))
    paths: list[str] = []

    def call(weights: dict[str, torch.Tensor], tensors: dict[str, torch.Tensor]) -> list[torch.Tensor]:
        values = iter(tensors.values())
        arguments = map_tensors(inputs, lambda _: next(values))
        result = flatten_outputs(torch.func.functional_call(model, weights, arguments))
        paths[:] = [path for path, _ in result]
        return [tensor for _, tensor in result]

    traced = make_fx(call, _decompositions(), tracing_mode="fake", _allow_non_fake_inputs=True)(state, inputs_by_path)
    nodes = [node for node in traced.graph.nodes if node.op == "placeholder"]
    weights = dict(zip(state, nodes, strict=False))
    tensors = list(zip(inputs_by_path, nodes[len(state) :], strict=True))
    constants = [(n, getattr(traced, str(n.target)).detach()) for n in traced.graph.nodes if n.op == "get_attr"]
    (output,) = (node for node in traced.graph.nodes if node.op == "output")
    return _arranged(traced, model, weights, constants, tensors, dict(zip(paths, output.args[0], strict=True)))


def _arranged(
    traced: fx.GraphModule,
    model: nn.Module,
    weights: Mapping[str, fx.Node],
    constants: list[tuple[fx.Node, torch.Tensor]],
    inputs: list[tuple[str, fx.Node]],
    result: Any,
) -> Captured:
    """The traced graph copied behind placeholders in the order of Captured; ``result`` has nodes for its tensors."""
    graph = fx.Graph()
    copies: dict[fx.Node, fx.Node] = {}
    state = model.state_dict()
    # A tensor under two names is traced under one of them; the other placeholder describes it too, but has no users.
    traced_as = {state[name].data_ptr(): node for name, node in weights.items()}
    for index, (name, tensor) in enumerate(state.items()):
        placeholder = graph.placeholder(f"weight_{index}")
        placeholder.meta.update(traced_as[tensor.data_ptr()].meta)
        if name in weights:
            copies[weights[name]] = placeholder
    for kind, nodes in (("constant", [node for node, _ in constants]), ("input", [node for _, node in inputs])):
        for index, node in enumerate(nodes):
            copies[node] = graph.placeholder(f"{kind}_{index}")
            copies[node].meta.update(node.meta)
    for node in traced.graph.nodes:
        if node.op == "call_function" and not _is_guard(node):
            copies[node] = graph.node_copy(node, lambda n: copies[n])
        elif node.op not in ("placeholder", "call_function", "output", "get_attr"):
            raise NotImplementedError(f"the graph has a {node.op} node")
    leaves = [(path, leaf) for path, leaf in named_leaves(result) if isinstance(leaf, fx.Node)]
    tensors = [(path, copies[node]) for path, node in leaves if isinstance(node.meta.get("val"), torch.Tensor)]
    graph.output(tuple(node for _, node in tensors))
    graph.eliminate_dead_code()
    graph.lint()
    return Captured(
        graph_module=fx.GraphModule({}, graph),
        weight_names=tuple(state),
        constants={copies[node].name: value for node, value in constants},
        input_paths=tuple(path for path, _ in inputs),
        output_paths=tuple(path for path, _ in tensors),
        output_template=_template(result, itertools.count()),
    )


def _template(value: Any, counter: Iterator[int]) -> str:
    """``output_template`` of a result with nodes for its tensors; other containers become dicts of their leaves."""
    if isinstance(value, fx.Node):
        return f"{{{next(counter)}}}" if isinstance(value.meta.get("val"), torch.Tensor) else "None"
    if isinstance(value, list):
        return "[" + ", ".join(_template(item, counter) for item in value) + "]"
    if type(value) is tuple:
        return "(" + "".join(f"{_template(item, counter)}, " for item in value).strip() + ")"
    leaves = named_leaves(value)
    if len(leaves) == 1 and leaves[0][0] == "0":
        leaf = leaves[0][1]
        return _template(leaf, counter) if leaf is not value else repr(value).replace("{", "{{").replace("}", "}}")
    return "{{" + "".join(f"{path!r}: {_template(leaf, counter)}, " for path, leaf in leaves).strip() + "}}"


def _is_guard(node: fx.Node) -> bool:
    """Assertions and hints of the exporter: shapes and dtypes are static here."""
    name = str(node.target)
    return "_assert" in name or "sym_constrain_range" in name


def _decompositions() -> Decompositions:
    table = torch.export.default_decompositions()
    return {overload: table[overload] for overload in table if str(overload) not in _WHOLE}


@contextmanager
def _quiet() -> Iterator[None]:
    """The exporter logs and warns of matters that concern its authors only."""
    logger = logging.getLogger("torch.export")
    level = logger.level
    logger.setLevel(logging.ERROR)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        logger.setLevel(level)
