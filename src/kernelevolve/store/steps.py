"""Steps: stored nodes as prompts and skills tell of them."""

from __future__ import annotations

from kernelevolve.prompting import Step
from kernelevolve.search.node import Node
from kernelevolve.store.store import Store


def read_step(store: Store, run: str, node: Node) -> Step:
    """A node with its program, the verdict that it was inserted with, and the timings of its numeric search."""
    return Step(
        node.id, node.parents, node.operator, store.candidate(run, node.id), store.verdict(run, node.id), node.fitness,
        tuple(store.trials(run, node.id)),
    )  # fmt: skip
