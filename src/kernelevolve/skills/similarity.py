"""Similarity: the class of a problem, and how alike two classes are.

The class is taken from the captured graph of the first search workload. Each ATen operator gets the share

    share(o) = cost(o) * log2(1 + count(o)) / sum over all operators of the same

where ``cost`` is 0 for views and for what has no tensor argument (they do no work), 1 for pointwise operators and for
those that only move elements, 4 for what combines or looks up elements of a tensor (reductions, softmax, norms, scans,
gathers), and 8 for products and recurrent layers. The costs are a choice, not a measurement: they say how much of a
kernel's structure hangs on an operator, so that two problems that share a product are more alike than two that share
an addition. The logarithm keeps a layer that is repeated from hiding the rest. Shares do not depend on sizes.

    similarity = operators * (0.6 + 0.25 * tensors * size + 0.15 * dtypes) * target

* ``operators`` and ``tensors`` (how many tensors there are of each role and rank) are weighted Jaccard indices, also
  known as Ruzicka similarity: the sum of minima over the sum of maxima. ``dtypes`` is the plain Jaccard index.
* ``size = 2 ** -(difference of size bands / 4)``: it halves for a factor of 256 in elements.
* ``target`` is 1 for the same target and 0.5 for another: a structure carries over, its numbers do not.

The operators multiply everything, for problems that compute nothing alike have nothing to teach each other however
their shapes agree; and other shapes alone take no more than a quarter, for structures carry over. The same problem on
the same target has similarity 1, also if it could not be captured.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from kernelevolve.errors import InvalidProblem
from kernelevolve.problems import Problem, Role
from kernelevolve.skills.records import ProblemClass
from kernelevolve.targets import Target

if TYPE_CHECKING:
    from torch import fx

_OPERATORS_ALONE, _TENSORS, _DTYPES = 0.6, 0.25, 0.15
_OTHER_TARGET = 0.5
_BANDS_TO_HALF = 4
_PRODUCTS = frozenset({"mm", "bmm", "addmm", "baddbmm", "convolution", "lstm", "gru", "rnn_tanh", "rnn_relu"})
_MOVES = frozenset({"_to_copy", "cat", "constant_pad_nd", "flip", "roll", "repeat", "slice_scatter", "select_scatter"})
_COST_OF_PRODUCT, _COST_OF_COMBINING, _COST_OF_ELEMENT = 8.0, 4.0, 1.0
_SHAPES_SHOWN = 8


def similarity(one: ProblemClass, other: ProblemClass) -> float:
    """How alike two problems are, from 0 to 1; symmetric. The formula is in the module's docstring."""
    if one.digest == other.digest and one.target == other.target:
        return 1.0
    size = math.exp2(-abs(one.size_band - other.size_band) / _BANDS_TO_HALF)
    dtypes = _ruzicka(dict.fromkeys(one.dtypes, 1.0), dict.fromkeys(other.dtypes, 1.0))
    form = _OPERATORS_ALONE + _TENSORS * _ruzicka(one.tensors, other.tensors) * size + _DTYPES * dtypes
    target = 1.0 if one.target == other.target else _OTHER_TARGET
    return _ruzicka(one.operators, other.operators) * form * target


def _ruzicka(one: Mapping[str, float], other: Mapping[str, float]) -> float:
    names = sorted({*one, *other})  # sorted: sums of the same terms in the same order are equal to the last bit
    most = math.fsum(max(one.get(name, 0.0), other.get(name, 0.0)) for name in names)
    return math.fsum(min(one.get(name, 0.0), other.get(name, 0.0)) for name in names) / most if most else 0.0


def problem_class(problem: Problem, target: Target) -> ProblemClass:
    """The class of a problem on a target; its reference is captured once, on the target's device.

    A problem that cannot be captured, or not in this memory, has a class without operators: only the same problem is
    like it.
    """
    from kernelevolve.problems.capture import capture
    from kernelevolve.problems.execution import is_out_of_memory
    from kernelevolve.problems.instance import load_instance

    try:
        instance = load_instance(problem, target.device_type, check=False)
        workload = next((w for w in instance.workloads if w.role is Role.SEARCH), instance.workloads[0])
        captured = capture(instance, workload)
    except (InvalidProblem, RuntimeError, MemoryError) as error:
        if not isinstance(error, InvalidProblem) and not is_out_of_memory(error):
            raise
        return ProblemClass(digest=problem.digest, target=target.name)
    nodes = list(captured.graph_module.graph.nodes)
    placeholders = [node for node in nodes if node.op == "placeholder"]
    weights, inputs = len(captured.weight_names), len(captured.input_paths)
    output = next(node for node in nodes if node.op == "output")
    tensors = {
        "weight": [_tensor(node) for node in placeholders[:weights]],
        "input": [_tensor(node) for node in placeholders[len(placeholders) - inputs :]],
        "output": [_tensor(node) for node in output.args[0]],
    }
    everything = [tensor for group in tensors.values() for tensor in group]
    largest = max((math.prod(tensor.shape) for tensor in everything), default=1)
    return ProblemClass(
        digest=problem.digest,
        target=target.name,
        operators=_shares(nodes),
        tensors=dict(sorted(Counter(f"{role} {t.ndim}d" for role, ts in tensors.items() for t in ts).items())),
        # log4 of an integer by its bits: no rounding decides a band.
        size_band=(max(1, largest).bit_length() - 1) // 2,
        dtypes=tuple(sorted({_dtype(tensor) for tensor in everything})),
        shapes=_described(tensors["input"], "input") + _described(tensors["output"], "output"),
    )


def _tensor(node: fx.Node) -> Any:
    return node.meta["val"]


def _dtype(tensor: Any) -> str:
    return str(tensor.dtype).removeprefix("torch.")


def _described(tensors: Iterable[Any], role: str) -> tuple[str, ...]:
    words = [f"{role} {n}: {_dtype(t)} {'x'.join(map(str, t.shape)) or 'scalar'}" for n, t in enumerate(tensors)]
    rest = len(words) - _SHAPES_SHOWN
    return (*words[:_SHAPES_SHOWN], f"{rest} more") if rest > 0 else tuple(words)


def _shares(nodes: Iterable[fx.Node]) -> dict[str, float]:
    counts: Counter[str] = Counter()
    costs: dict[str, float] = {}
    for node in nodes:
        cost = _cost(node) if node.op == "call_function" else 0.0
        if cost:
            name = _name(node)
            costs[name] = max(cost, costs.get(name, 0.0))
            counts[name] += 1
    work = {name: costs[name] * math.log2(1 + counts[name]) for name in sorted(counts)}
    total = math.fsum(work.values())
    return {name: value / total for name, value in work.items()}


def _name(node: fx.Node) -> str:
    packet = getattr(node.target, "overloadpacket", None)
    return str(packet.__name__) if packet is not None else ""


def _cost(node: fx.Node) -> float:
    import torch

    operator: Any = node.target
    # What is no ATen operator takes results apart; what has no tensor to read makes constants.
    if (
        not _name(node)
        or operator.is_view
        or not any(isinstance(n.meta.get("val"), torch.Tensor) for n in node.all_input_nodes)
    ):
        return 0.0
    if _name(node) in _PRODUCTS:
        return _COST_OF_PRODUCT
    pointwise = torch.Tag.pointwise in operator.tags or _name(node) in _MOVES
    return _COST_OF_ELEMENT if pointwise else _COST_OF_COMBINING
