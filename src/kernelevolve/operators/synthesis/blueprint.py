"""Blueprint: a problem captured once, from which candidates are drawn under different plans."""

from __future__ import annotations

import inspect
import random
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import torch

from kernelevolve.errors import InvalidProblem
from kernelevolve.operators.synthesis.emit import EMITTERS, Emitted, Facts
from kernelevolve.operators.synthesis.emit.shell import LARGEST_CONSTANT, Interface, candidate_source
from kernelevolve.operators.synthesis.fuse import schedule
from kernelevolve.operators.synthesis.lower import NotLowered, lower
from kernelevolve.operators.synthesis.plan import Plan, Planner
from kernelevolve.operators.synthesis.rewrite import rewritten
from kernelevolve.problems import Problem, Role, Workload
from kernelevolve.problems.capture import Captured, capture
from kernelevolve.problems.instance import Instance, load_instance
from kernelevolve.problems.outputs import named_leaves


@dataclass(frozen=True)
class Draft:
    """One candidate text and the decisions behind it."""

    source: str
    plan: Plan


@dataclass(frozen=True)
class Blueprint:
    """Everything about a problem that does not change from candidate to candidate."""

    captured: Captured
    interface: Interface
    fixed_sizes: Mapping[str, int]
    """Symbols of the graph that have one value in every workload that is timed, with that value."""

    def draft(
        self,
        language: str,
        facts: Facts,
        choices: Mapping[str, str] | None = None,
        *,
        rng: random.Random | None = None,
        explore: float = 0.0,
    ) -> Draft:
        """A candidate in a language; open questions are answered as ``Planner`` says.

        Where the loop form cannot hold the problem, the candidate is its graph in plain torch calls.
        """
        planner = Planner(choices, rng, explore)
        emitter = EMITTERS.get(language)
        traits = emitter.traits(facts)
        try:
            program = rewritten(lower(self.captured, self.fixed_sizes), planner, traits)
            grouped = schedule(program, planner, traits)
            emitted = emitter.emit(grouped, planner, facts)
        except NotLowered:
            source = candidate_source(self.captured, self.interface, None, Emitted((), "", {}), Plan())
            return Draft(source, Plan())
        source = candidate_source(self.captured, self.interface, grouped, emitted, planner.plan)
        return Draft(source, planner.plan)


@lru_cache(maxsize=32)
def _blueprint(digest: str, device_type: str, holder: _Held) -> Blueprint:
    return make_blueprint(load_instance(holder.problem, torch.device(device_type)))


@dataclass(frozen=True, eq=False)
class _Held:
    """A problem as a part of a cache key that is equal to any other: its digest is the key."""

    problem: Problem

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Held)

    def __hash__(self) -> int:
        return 0


def blueprint_of(problem: Problem, device_type: str) -> Blueprint:
    """The blueprint of a problem, captured on a device; kept by the problem's digest.

    Raises InvalidProblem if the reference cannot be captured.
    """
    return _blueprint(problem.digest, device_type, _Held(problem))


def make_blueprint(instance: Instance) -> Blueprint:
    """Capture an instance. Sizes in which its workloads differ are left open if the reference allows it.

    Raises InvalidProblem if the reference cannot be captured.
    """
    first = next((w for w in instance.workloads if w.role is Role.SEARCH), instance.workloads[0])
    others = [w for w in instance.workloads if w.dtype == first.dtype and w.axes != first.axes]
    try:
        captured = capture(instance, first, varying=others)
    except InvalidProblem:
        if not others:
            raise
        captured = capture(instance, first)
    large = [n for n, t in captured.constants.items() if t.numel() * t.element_size() > LARGEST_CONSTANT]
    if large:
        raise InvalidProblem(
            f"the reference holds {len(large)} large tensors outside its state dict",
            path=instance.problem.path or instance.problem.name, fix="register them as buffers",
        )  # fmt: skip
    inputs = instance.make_inputs(first, 0)
    return Blueprint(captured, _interface(instance, captured, inputs), _fixed_sizes(instance, captured, first, others))


def _fixed_sizes(instance: Instance, captured: Captured, first: Workload, others: list[Workload]) -> dict[str, int]:
    """Symbols that agree in all timed workloads (stress cases are never timed)."""
    timed = [dict(named_leaves(instance.make_inputs(w, 0))) for w in others if w.role is not Role.STRESS]
    nodes = [n for n in captured.graph_module.graph.nodes if n.op == "placeholder"]
    nodes = nodes[len(nodes) - len(captured.input_paths) :]
    fixed: dict[str, int] = {}
    seen: set[str] = set()
    for path, node in zip(captured.input_paths, nodes, strict=True):
        for dim, size in enumerate(node.meta["val"].shape):
            if not isinstance(size, torch.SymInt) or str(size.node.expr) in seen:
                continue
            symbol = str(size.node.expr)
            seen.add(symbol)
            hint = int(size.node.hint)
            if all(leaves[path].shape[dim] == hint for leaves in timed):
                fixed[symbol] = hint
    return fixed


def _interface(instance: Instance, captured: Captured, inputs: tuple[Any, ...]) -> Interface:
    signature = inspect.signature(type(instance.make_model(0)).forward)
    names = list(signature.parameters)[1:]
    paths = dict(_expressions(inputs, names))
    plain = [
        (paths[path], leaf)
        for path, leaf in named_leaves(inputs)
        if not isinstance(leaf, torch.Tensor) and isinstance(leaf, (int, float, bool, str, type(None)))
    ]
    return Interface(
        instance.problem.name, _signature_text(signature, names), tuple(paths[p] for p in captured.input_paths),
        tuple(plain), instance.parameter_names,
    )  # fmt: skip


def _signature_text(signature: inspect.Signature, names: list[str]) -> str:
    parts = []
    for name in names:
        parameter = signature.parameters[name]
        stars = {"VAR_POSITIONAL": "*", "VAR_KEYWORD": "**"}.get(parameter.kind.name, "")
        default = parameter.default
        text = f"{stars}{name}"
        if default is not inspect.Parameter.empty:
            text += f"={default!r}" if isinstance(default, (int, float, bool, str, type(None))) else "=None"
        parts.append(text)
    return ", ".join(parts)


def _expressions(inputs: tuple[Any, ...], names: list[str]) -> list[tuple[str, str]]:
    """For each leaf of the inputs its path and the expression that reaches it from the parameters of forward."""
    found = []
    for path, _ in named_leaves(inputs):
        first, *rest = path.split(".")
        number = int(first)
        expression = names[number] if number < len(names) else f"{names[-1]}[{number - len(names) + 1}]"
        value: Any = inputs[number]
        for part in rest:
            if isinstance(value, Mapping):
                key = next(k for k in value if str(k) == part)
                expression, value = f"{expression}[{key!r}]", value[key]
            elif isinstance(value, (list, tuple)) and part.isdigit():
                expression, value = f"{expression}[{part}]", value[int(part)]
            else:
                expression, value = f"{expression}.{part}", getattr(value, part)
        found.append((path, expression))
    return found
