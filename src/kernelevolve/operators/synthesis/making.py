"""Making: from a problem and a plan's choices to the source of a candidate."""

from __future__ import annotations

import inspect
import random
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from kernelevolve.candidates import Candidate
from kernelevolve.candidates.structure import read_plan, split_config, structure_key
from kernelevolve.errors import InvalidProblem
from kernelevolve.operators.operator import ProposalContext
from kernelevolve.operators.synthesis.emit import EMITTERS, Emitted, Facts
from kernelevolve.operators.synthesis.emit.emitter import Inexpressible
from kernelevolve.operators.synthesis.emit.shell import LARGEST_CONSTANT, Interface, candidate_source
from kernelevolve.operators.synthesis.fuse import schedule
from kernelevolve.operators.synthesis.lower import NotLowered, lower
from kernelevolve.operators.synthesis.plan import Plan, Planner, read_choices
from kernelevolve.operators.synthesis.rewrite import rewritten
from kernelevolve.problems import Problem, Role, Workload
from kernelevolve.problems.capture import Captured, capture
from kernelevolve.problems.instance import Instance, load_instance
from kernelevolve.problems.outputs import flatten_outputs, named_leaves
from kernelevolve.targets import TARGETS

LANGUAGE_OF = {"cpu": "cpp", "nvidia": "triton"}
"""The language that the synthesis writes for a target."""
_ATTEMPTS = 24
"""Plans that are drawn before an operator says that it has nothing new."""


@dataclass(frozen=True)
class Subject:
    """A captured problem; what does not change from candidate to candidate."""

    captured: Captured
    interface: Interface
    general: Mapping[str, int]
    """Graph symbols that have one value in all search and held-out workloads, and that value."""
    special: Mapping[str, int]
    """The same for the search workloads alone."""


_subjects: dict[tuple[str, str], Subject | None] = {}
_capturing = threading.Lock()


def subject_of(problem: Problem, target: str) -> Subject | None:
    """The problem as a graph, captured once per process; None if it cannot be."""
    device = TARGETS.get(target).device_type
    key = (problem.digest, device)
    with _capturing:
        if key not in _subjects:
            try:
                _subjects[key] = _capture(load_instance(problem, device))
            except InvalidProblem:
                _subjects[key] = None
        return _subjects[key]


def _capture(instance: Instance) -> Subject:
    workloads = instance.workloads
    first = next(w for w in workloads if w.role is Role.SEARCH)
    alike = [w for w in workloads if w.dtype == first.dtype]
    others = [w for w in alike if w.axes != first.axes]
    try:
        captured = capture(instance, first, varying=others)
    except InvalidProblem:
        if not others:
            raise
        # Some references can be captured for one set of sizes only.
        captured = capture(instance, first)
    if any(t.numel() * t.element_size() > LARGEST_CONSTANT for t in captured.constants.values()):
        raise InvalidProblem(
            "the reference holds large tensors outside its state dict", fix="register them as buffers",
            path=instance.problem.path or instance.problem.name,
        )  # fmt: skip
    inputs = instance.make_inputs(first, 0)
    search = [w for w in alike if w.role is Role.SEARCH]
    known = [w for w in alike if w.role is not Role.STRESS]
    return Subject(
        captured, _interface(instance, captured, inputs), _constant_sizes(instance, captured, known),
        _constant_sizes(instance, captured, search),
    )  # fmt: skip


def _constant_sizes(instance: Instance, captured: Captured, workloads: Sequence[Workload]) -> dict[str, int]:
    """Graph symbols that stand for the same size in all of some workloads."""
    symbols: dict[str, set[int]] = {}
    nodes = [n for n in captured.graph_module.graph.nodes if n.op == "placeholder"][-len(captured.input_paths) :]
    for workload in workloads:
        leaves = dict(flatten_outputs(instance.make_inputs(workload, 0)))
        for node, path in zip(nodes, captured.input_paths, strict=True):
            for size, value in zip(node.meta["val"].shape, leaves[path].shape, strict=True):
                if isinstance(size, torch.SymInt) and size.node.expr.is_Symbol:
                    symbols.setdefault(str(size.node.expr), set()).add(int(value))
    return {name: values.pop() for name, values in symbols.items() if len(values) == 1}


def _interface(instance: Instance, captured: Captured, inputs: tuple[Any, ...]) -> Interface:
    """How the arguments of ``forward`` are named, and how each tensor among them is reached."""
    parameters = list(inspect.signature(instance.make_model(0).forward).parameters.values())
    names = [p.name for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    spread = next((p.name for p in parameters if p.kind is p.VAR_POSITIONAL), None)
    texts = [p.name if p.default is p.empty else f"{p.name}={p.default!r}" for p in parameters if p.name in names]
    texts += [f"*{spread}"] if spread else []
    roots = [names[i] if i < len(names) else f"{spread}[{i - len(names)}]" for i in range(len(inputs))]
    leaves = named_leaves(inputs)
    expressions = {path: _reach(path, roots, inputs) for path, _ in leaves}
    plain = tuple((expressions[path], leaf) for path, leaf in leaves if not isinstance(leaf, torch.Tensor))
    return Interface(
        title=instance.problem.name, signature=", ".join(texts), plain=plain,
        inputs=tuple(expressions[path] for path in captured.input_paths), parameters=instance.parameter_names,
    )  # fmt: skip


def _reach(path: str, roots: Sequence[str], inputs: tuple[Any, ...]) -> str:
    """The expression for a leaf of the inputs: 'x', 'offsets[3]', 'batch["ids"]'."""
    first, *rest = path.split(".")
    text, value = roots[int(first)], inputs[int(first)]
    for part in rest:
        if isinstance(value, Mapping):
            key = next(k for k in value if str(k) == part)
            text, value = f"{text}[{key!r}]", value[key]
        elif hasattr(value, "_fields"):
            text, value = f"{text}.{part}", getattr(value, part)
        else:
            text, value = f"{text}[{part}]", value[int(part)]
    return text


def make(
    subject: Subject, target: str, facts: Facts, choices: Mapping[str, str], rng: random.Random, explore: float = 0.0
) -> tuple[Candidate, Plan]:
    """A candidate that follows these choices; what they leave open is answered by default, or at random with
    probability ``explore``.

    A kernel that the language cannot express is taken apart, and in the end left to torch: there is always a candidate.
    """
    language = LANGUAGE_OF[target]
    planner = Planner(choices, rng, explore)
    try:
        return _made(subject, language, facts, planner)
    except Inexpressible:
        planner = Planner({**choices, **_apart(planner.plan)}, rng)
    except NotLowered:
        return _torch_only(subject, language)
    try:
        return _made(subject, language, facts, planner)
    except (Inexpressible, NotLowered):
        return _torch_only(subject, language)


def _made(subject: Subject, language: str, facts: Facts, planner: Planner) -> tuple[Candidate, Plan]:
    sizes = subject.general
    if subject.general != subject.special:
        special = planner.choose("sizes", ("general", "special"), niche=True) == "special"
        sizes = subject.special if special else subject.general
    emitter = EMITTERS.get(language)
    traits = emitter.traits(facts)
    program = rewritten(lower(subject.captured, sizes), planner, traits)
    scheduled = schedule(program, planner, traits)
    emitted = emitter.emit(scheduled, planner, facts)
    return _candidate(
        candidate_source(subject.captured, subject.interface, scheduled, emitted, planner.plan), language, planner.plan
    )


def _torch_only(subject: Subject, language: str) -> tuple[Candidate, Plan]:
    source = candidate_source(subject.captured, subject.interface, None, Emitted((), "", {}), Plan())
    return _candidate(source, "pytorch", Plan())


def _candidate(source: str, language: str, plan: Plan) -> tuple[Candidate, Plan]:
    text, config = split_config(source)
    return Candidate(source=text, language=language, config=config), plan


def _apart(plan: Plan) -> dict[str, str]:
    """The choices of a plan with nothing fused that is heavy, and products left to the library."""
    cautious = {"fuse": "separate", "product": "library"}
    return {d.name: cautious[d.kind] if cautious.get(d.kind) in d.options else d.choice for d in plan.decisions}


def new_candidate(context: ProposalContext, tries: Sequence[Mapping[str, str]], explore: float) -> Candidate | None:
    """The first candidate by these choices that is not in ``context.tried``; None if there is none."""
    subject = subject_of(context.problem, context.target)
    if subject is None:
        return None
    for choices in tries[:_ATTEMPTS]:
        candidate, _ = make(subject, context.target, context.facts, choices, context.rng, explore)
        if structure_key(candidate.source) not in context.tried:
            return candidate
    return None


def plan_of(context: ProposalContext, candidate: Candidate) -> Plan | None:
    """The plan of a generated candidate with its alternatives, found by making it again; None if it is not ours."""
    subject = subject_of(context.problem, context.target)
    choices = read_choices(read_plan(candidate.source))
    if subject is None or choices is None:
        return None
    return make(subject, context.target, context.facts, choices, random.Random(0))[1]
