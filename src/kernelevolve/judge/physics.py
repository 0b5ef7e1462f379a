"""Physics: the least time in which a device could do a workload's work. Always a lower bound.

A time below it is a measuring error or a cheat, so whatever an honest kernel could avoid is not counted: rows that no
index names, products in a costlier association, sums that commute with a linear operator, writes that are still in the
cache when the clock stops. Where a reference cannot be captured as a graph, only its outputs are counted.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import fx

from kernelevolve.errors import InvalidProblem
from kernelevolve.judge.arithmetic import Arithmetic, Work
from kernelevolve.judge.demand import Demand, common, memory
from kernelevolve.judge.oracle import Reference
from kernelevolve.judge.verdict import Roofline
from kernelevolve.problems import Workload
from kernelevolve.problems.capture import Captured, capture
from kernelevolve.problems.instance import Instance
from kernelevolve.problems.outputs import flatten_outputs
from kernelevolve.targets import Ceilings

_SEED = 1009
"""Of the inputs on which indices and masks are counted; other draws name about as many rows."""
_SPLIT_TERMS = {"tf32": 3, "bfloat16": 6, "float16": 6}
"""Products in a narrower format that together give an fp32 product: 3xTF32, and three-way splits into 16 bits.

Their sum is as exact as fp32 arithmetic (Ootomo and Yokota, IJHPCA 36(4), 2022), so an honest kernel may use them.
"""


def rooflines(instance: Instance, workloads: Sequence[Workload], ceilings: Ceilings) -> dict[str, Roofline]:
    """The roofline of each workload, by name, without a fraction.

    Each costs one capture of the reference and one draw of the inputs. Raises InvalidProblem if the reference fails.
    """
    return {workload.name: _roofline(instance, workload, ceilings) for workload in workloads}


def with_time(roofline: Roofline, seconds: float) -> Roofline:
    """The same roofline with the fraction that a program of this time reaches."""
    return roofline.model_copy(update={"fraction": roofline.floor_seconds / seconds if seconds > 0 else None})


def _roofline(instance: Instance, workload: Workload, ceilings: Ceilings) -> Roofline:
    # On a CPU what was written last stays in the last-level cache when the clock stops. On a GPU the flush leaves the
    # cache full of lines that must be written back first, whoever wrote them.
    absorbed = ceilings.cache_bytes if instance.device.type == "cpu" else 0
    try:
        captured = capture(instance, workload, _SEED)
    except InvalidProblem:
        read, written, work = 0.0, _output_bytes(instance, workload), Work()
    else:
        graph = captured.graph_module.graph
        placeholders = [node for node in graph.nodes if node.op == "placeholder"]
        inputs = _inputs(captured, placeholders, instance, workload)
        demand = Demand(graph, inputs)
        needed = {node: common(demand.shares[node], demand.density(node)) for node in placeholders}
        read = sum(share * _bytes(node.meta["val"]) for node, share in needed.items())
        written = _written_bytes(graph)
        work = Arithmetic(graph, demand, frozenset(placeholders) - inputs.keys()).work()
    traffic = read + max(0.0, written - absorbed)
    memory_seconds = traffic / max(ceilings.read_bandwidth, ceilings.copy_bandwidth)
    compute_seconds = _compute_seconds(work, ceilings)
    floor = max(memory_seconds, compute_seconds)
    bound = "memory" if memory_seconds >= compute_seconds else "compute"
    return Roofline(
        workload=workload.name, bytes=traffic, flops=work.total, floor_seconds=floor,
        bound="launch" if floor < ceilings.launch_seconds else bound,
    )  # fmt: skip


def _inputs(
    captured: Captured, placeholders: list[fx.Node], instance: Instance, workload: Workload
) -> dict[fx.Node, torch.Tensor]:
    """The placeholders of inputs, each with its tensor of one draw."""
    leaves = dict(flatten_outputs(instance.make_inputs(workload, _SEED)))
    first = len(placeholders) - len(captured.input_paths)
    return {node: leaves[path] for node, path in zip(placeholders[first:], captured.input_paths, strict=True)}


def _written_bytes(graph: fx.Graph) -> float:
    """Bytes of the outputs, each memory once; windows on inputs are free."""
    (output,) = (node for node in graph.nodes if node.op == "output")
    nodes = {node: memory(node) for node in output.args[0] if isinstance(node, fx.Node)}
    by_memory: dict[fx.Node, float] = {}
    for node, base in nodes.items():
        if base.op != "placeholder":
            by_memory[base] = max(by_memory.get(base, 0.0), _bytes(node.meta.get("val")))
    return sum(by_memory.values())


def _output_bytes(instance: Instance, workload: Workload) -> float:
    outputs = Reference(instance, workload, _SEED).outputs(instance.make_inputs(workload, _SEED))
    return sum(map(_bytes, outputs.values()))


def _bytes(value: object) -> float:
    return float(value.numel() * value.element_size()) if isinstance(value, torch.Tensor) else 0.0


def _compute_seconds(work: Work, ceilings: Ceilings) -> float:
    """Time of the arithmetic if units for different formats work side by side, each at its ceiling.

    Whatever is not a product counts at the best rate of all: what else a device can do at once is not known here.
    """
    best = max(ceilings.flops.values(), default=math.inf)
    times = [count / _rate(dtype, ceilings) for dtype, count in work.products.items()]
    return max([*times, work.pointwise / best])


def _rate(dtype: str, ceilings: Ceilings) -> float:
    """Operations a second of products of this format; the best of all formats if it was not measured."""
    if dtype not in ceilings.flops:
        return max(ceilings.flops.values(), default=math.inf)
    if dtype != "float32":
        return ceilings.flops[dtype]
    split = [ceilings.flops[name] / terms for name, terms in _SPLIT_TERMS.items() if name in ceilings.flops]
    return max([ceilings.flops[dtype], *split])
